"""Split rules, one file each: samples and a record of `split_rules` to indices of each client, and a check of them."""
