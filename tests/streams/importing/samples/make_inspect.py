"""inspect.json and inspect.eval: a log of Inspect, of one evaluation with two samples of an agent with tools.

`python make_inspect.py` in an environment with inspect-ai; no network.
"""

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

os.chdir(mkdtemp())  # Inspect names where it runs

from inspect_ai import Task, eval  # noqa: A004, E402  # Inspect's name; after the folder
from inspect_ai.agent import Agent, as_tool, react  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import convert_eval_logs  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.tool import Tool, ToolError, tool  # noqa: E402

HERE = Path(__file__).parent


def outputs(name: str, calls: list[tuple[str, dict[str, Any]]]) -> list[ModelOutput]:
    made = []
    for number, (function, args) in enumerate(calls):
        output = ModelOutput.for_tool_call("mockllm/model", function, args, tool_call_id=f"call_{name}{number}")
        output.usage = ModelUsage(
            input_tokens=200, output_tokens=80, total_tokens=1280, input_tokens_cache_read=1000, total_cost=0.004
        )
        made.append(output)
    return made


@tool
def delete_asset() -> Tool:
    async def execute(asset_id: str) -> str:
        """Delete an asset.

        Args:
            asset_id: which
        """
        return f"{asset_id} still exists"

    return execute


@tool
def describe_asset() -> Tool:
    async def execute(asset_id: str) -> str:
        """Describe an asset.

        Args:
            asset_id: which
        """
        raise ToolError(f"no such asset: {asset_id}")

    return execute


def helper() -> Agent:
    calls = [("delete_asset", {"asset_id": "fact_orders"}), ("submit", {"answer": "done"})]
    model = get_model("mockllm/model", custom_outputs=outputs("b", calls), memoize=False)
    return react(name="helper", description="Cleans up.", tools=[delete_asset()], model=model)


def main() -> None:
    calls = [
        *[("delete_asset", {"asset_id": "fact_sales"})] * 3,
        ("helper", {"input": "clean up fact_orders"}),
        ("describe_asset", {"asset_id": "none"}),
        ("submit", {"answer": "done"}),
    ]
    model = get_model("mockllm/model", custom_outputs=outputs("a", calls), memoize=False)
    agent = react(name="cleaner", tools=[delete_asset(), describe_asset(), as_tool(helper())])
    task = Task(dataset=[Sample(input="clean up fact_sales", id="night-7")], solver=agent, name="clean_up")
    (log,) = eval(task, model=model, log_format="eval", log_dir="logs", log_model_api=False, display="none")
    assert log.status == "success", log.error
    shutil.copy(log.location.removeprefix("file://"), HERE / "inspect.eval")
    convert_eval_logs(log.location.removeprefix("file://"), to="json", output_dir="converted", overwrite=True)
    (converted,) = Path("converted").glob("*.json")
    (HERE / "inspect.json").write_bytes(converted.read_bytes())


if __name__ == "__main__":
    main()
