"""The words every part of cowork speaks: blocks, events, errors, ports and the transcript fold."""
