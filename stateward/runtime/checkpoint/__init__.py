"""What a checkpoint says about itself, and its repair after a power loss."""
