"""What the 5.x port takes, beside itself at another commit and beside Apache's proxy."""
