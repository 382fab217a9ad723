"""Guest: loads the written code and answers calls of one of its functions, one JSON line each. It knows no test."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tokenmill.tools_repo.code.guests.common import lay_out, open_channel, read_line, write_all  # ours, sent along
from tokenmill.tools_repo.code.guests.values import Unsendable, decode, encode  # ours, sent along


def exits(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (0, None)


def serve() -> None:
    lines, channel = open_channel()
    job = json.loads(read_line(lines))
    root = Path(os.environ["HOME"], "workspace")
    lay_out(root, job["files"])

    def say(value: object) -> None:
        write_all(channel, json.dumps(value).encode() + b"\n")

    sys.set_int_max_str_digits(0)
    sys.path.insert(0, str(root))
    os.chdir(root)
    space: dict[str, Any] = {"__name__": "solution", "__file__": str(root / job["module"])}
    try:
        code = compile((root / job["module"]).read_text(encoding="utf-8"), job["module"], "exec")
        exec(code, space)
        function = space[job["entry_point"]]
    except KeyError:
        say({"broken": f"there is no {job['entry_point']} in {job['module']}"})
        return
    except BaseException as error:
        say({"broken": f"{type(error).__name__}: {error}"[:500], "exit": exits(error)})
        return
    say({"ready": True})
    for line in lines:
        args, kwargs = decode(json.loads(line)[0]), decode(json.loads(line)[1])
        try:
            value = function(*args, **kwargs)
            say({"value": encode(value)})
        except Unsendable as error:
            say({"unsendable": f"it returned {error}"})
        except RecursionError as error:
            say({"raised": ["RecursionError", str(error)[:500]]})
        except BaseException as error:
            say({"raised": [type(error).__name__, str(error)[:500]], "exit": exits(error)})


serve()
