"""Commands whose processes try to stay: by forking, by new sessions, by deafness, by holding pipes, by flooding.

Every process carries the mark of its desk in its environment or, where that is emptied, in its arguments.
"""

from __future__ import annotations

PYTHON_DAEMON = """python3 -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
for fd in range(256):
    try: os.close(fd)
    except OSError: pass
time.sleep(600)
'"""

PYTHON_DEAF = """python3 -c '
import signal, time, os
for n in range(1, 32):
    try: signal.signal(n, signal.SIG_IGN)
    except OSError: pass
os.fork()
while True: time.sleep(600)
'"""

PYTHON_RESPAWN = """python3 -c '
import os, signal, time
def again(*_):
    if os.fork() == 0: time.sleep(600)
signal.signal(signal.SIGTERM, again)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True: time.sleep(600)
'"""

PYTHON_THREADS = """python3 -c '
import os, threading, time, ctypes
def stay():
    if os.fork() == 0: time.sleep(600)
    time.sleep(600)
for _ in range(4): threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall(60, 0)  # the main thread alone ends
'"""

PYTHON_REAPER = """python3 -c '
import ctypes, os, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
if os.fork() == 0:
    if os.fork() == 0: time.sleep(600)
    os._exit(0)
time.sleep(600)
' & disown"""

PYTHON_VFORK = """python3 -c '
import subprocess
for _ in range(20): subprocess.Popen(["sleep", "600"], start_new_session=True)
'"""

ARTISTS: dict[str, str] = {
    "a sleeper": "sleep 600",
    "one in the background": "sleep 600 & echo started",
    "many in the background": "for i in $(seq 30); do sleep 600 & done; echo started",
    "a subshell in the background": "(sleep 600; echo never) &",
    "nested subshells": "( ( ( ( sleep 600 ) & ) & ) & )",
    "setsid": "setsid sleep 600",
    "setsid in the background": "setsid sleep 600 & exit 0",
    "setsid twice": "setsid setsid -f setsid sleep 600",
    "setsid -f": "setsid -f sleep 600",
    "nohup": "nohup sleep 600 >/dev/null 2>&1 &",
    "disown": "sleep 600 & disown; exit 0",
    "nohup and disown": "nohup setsid sleep 600 >/dev/null 2>&1 & disown -a",
    "double fork": "( sleep 600 & ) ; true",
    "double fork with all files closed": "( ( exec sleep 600 <&- >&- 2>&- ) & )",
    "a python daemon": PYTHON_DAEMON,
    "deaf to TERM": "trap '' TERM; sleep 600",
    "deaf to everything it may be": "trap '' HUP INT QUIT TERM USR1 USR2 PIPE ALRM; while :; do sleep 600; done",
    "deaf python with a child": PYTHON_DEAF,
    "a deaf session": "setsid bash -c 'trap \"\" TERM; sleep 600 & wait' & wait",
    "a trap that starts another": "trap 'sleep 600 & sleep 600' TERM; sleep 600 & wait",
    "a trap at the exit": "trap 'setsid sleep 600 &' EXIT; true",
    "python that forks when told to end": PYTHON_RESPAWN,
    "threads that outlive their main thread": PYTHON_THREADS,
    "a reaper of its own": PYTHON_REAPER,
    "twenty sessions": PYTHON_VFORK,
    "holding the output": "sleep 600 & echo done; exit 0",
    "holding the output elsewhere": "exec 9>&1; (sleep 600 >&9) & exec >/dev/null; exit 0",
    "a pipe nobody reads": "yes | sleep 600",
    "a pipe nobody writes": "sleep 600 | cat",
    "process substitution": "cat <(sleep 600) &",
    "process substitution as output": "echo hi > >(sleep 600)",
    "a coprocess": "coproc sleep 600; echo started",
    "a waiter on stdin": "cat; read line; echo after; sleep 600",
    "a waiter on the terminal": "cat </dev/tty; sleep 600",
    "a waiter on a fifo": "mkfifo f; cat f",
    "both ends of a fifo": "mkfifo g; (cat g &) ; sleep 600 > g",
    "another name": 'exec -a "innocent-$MARK" sleep 600',
    "another name in the background": '(exec -a "init-$MARK" sleep 600) & exit 0',
    "an empty environment": 'env -i bash -c "sleep 600 # $MARK" & exit 0',
    "an empty environment in a session": 'setsid env -i bash -c "trap : TERM; while :; do sleep 600; done # $MARK" &',
    "stopped": "kill -STOP $$",
    "stopped children": "sleep 600 & kill -STOP $!; exit 0",
    "a lock held": "exec 8>lock; flock 8; sleep 600 & exit 0",
    "xargs in parallel": "seq 8 | xargs -P8 -I{} sleep 60{}",
    "find that executes": "find . -maxdepth 0 -exec sleep 600 ';'",
    "timeout inside": "timeout --foreground 600 sleep 600 & exit 0",
    "nice and ionice": "nice -n 19 sleep 600 & exit 0",
    "a busy loop": "while :; do :; done",
    "a tree that grows for a while": "f() { (($1 > 0)) && { f $(($1-1)) & f $(($1-1)) & }; sleep 600; }; f 4",
    "a chain of handovers": "f() { sleep 0.05; (($1 > 0)) && { (f $(($1-1))) & } ; }; f 200; sleep 600",
    "a killed keeper": "setsid sleep 600 & kill -9 $PPID; sleep 600",
    "a stopped keeper": 'env -i setsid bash -c "sleep 600 # $MARK" & kill -STOP $PPID; sleep 600',
    "a polite word to the keeper": "kill $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 600",
    "a signal to its group": "sleep 600 & kill 0; sleep 600",
}

FLOODS: dict[str, str] = {
    "yes": "yes",
    "yes without a line end": "yes | tr -d '\\n'",
    "zeros": "cat /dev/zero",
    "random bytes": "head -c 20000000 /dev/urandom",
    "a line of 200 MB": "head -c 200000000 /dev/zero | tr '\\0' x",
    "escapes": "yes $'\\e[31m\\e]0;title\\a\\e[2J'",
    "returns": "yes '50%' | tr '\\n' '\\r'",
    "backspaces": "yes | tr 'y\\n' 'a\\b'",
    "eight-bit controls": "yes $'\\u009d\\u009b1'",
    "on both streams": "yes >&2 & yes",
    "many small writes": "while :; do echo line; done",
    "open sequences": "yes $'\\e]' | tr -d '\\n'",
}
