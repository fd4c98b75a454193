"""What may run: rules, shell commands, paths, trust and the boxes."""

from cowork.permissions.policy import Permissions as Permissions
