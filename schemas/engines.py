"""Executable tools: Python that a model wrote for the tools of a domain, and what was checked of it."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.tools import ToolSpec


@dataclass(frozen=True, kw_only=True)
class EngineTask:
    """A domain with its tools, for which code is to be written."""

    id: str = column("`id` of the domain")
    number: int = column("0-based number of the domain in the input")
    title: str = column("names from the category down to the domain")
    description: str = column("what is done in the domain")
    entities: str = column("entity model, as JSON; empty when it was not designed")
    state: str = column("a sample state that meets it, as JSON")
    tools: list[ToolSpec] = column("tools of the domain")


@dataclass(frozen=True, kw_only=True)
class EngineModule:
    """One Python module that was accepted, for some of its domain's tools."""

    tools: list[str] = column("`id` of each tool whose function passed every check")
    functions: list[str] = column("names of their functions, in the same order")
    code: str = column("text of the module; each function takes `(state, args, now)`")
    tests: str = column("text of its tests, written by the model with it; each takes `world`")
    tests_passed: int = column("tests that passed")
    calls_checked: int = column("calls over which the semantics were checked")
    tries: int = column("answers that it took")


@dataclass(frozen=True, kw_only=True)
class EngineFault:
    """Why a tool has no code."""

    tool: str = column("`id` of the tool")
    detail: str = column("what its last code did wrong, one line")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The executable tools of one domain: one row of a `tools implement` stage."""

    id: str = column("`id` of the domain")
    entities: str = column("entity model over which the code runs, as JSON")
    modules: list[EngineModule] = column("the code, a few tools a module")
    missing: list[EngineFault] = column("tools without code, which a model has to simulate")
    model: str = column("model that wrote it")
    prompts: list[str] = column("every prompt used, as `name@version`")
    seed: int = column("seed of the run")
    model_calls: int = column("calls of the model that it took")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")

    def function_of(self, tool: str) -> tuple[str, str]:
        """The text of the module and the name of the function for the tool of this id.

        Raises:
            KeyError: there is no code for it.
        """
        for module in self.modules:
            if tool in module.tools:
                return module.code, module.functions[module.tools.index(tool)]
        raise KeyError(tool)


@dataclass(frozen=True, kw_only=True)
class RefusedEngine(Engine):
    """A domain for none of whose tools any code was accepted."""

    reason: str = column("machine-readable reason: `no_tools`, `no_world`, `no_code`")
    detail: str = column("what is wrong, one line")
