"""From states to numbers: predictions of personal and global models, and what they are worth."""
