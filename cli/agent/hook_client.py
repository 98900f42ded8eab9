"""The program of a hook: an agent runs it by its path (`python -I -S hook_client.py ...`) at every tool call.

Python compiles a program at each start, but an imported module only once, so the code is in `hook_request`.
"""

import sys

if __name__ == "__main__":
    sys.path.insert(0, __file__.rpartition("/")[0] or __file__.rpartition("\\")[0])
    sys.exit(__import__("hook_request").main())
