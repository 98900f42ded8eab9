"""The agent of LangChain that LangSmith, Phoenix and Langfuse record: its model is scripted, its tools do nothing."""

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

USED = {
    "input_tokens": 1200,
    "output_tokens": 80,
    "total_tokens": 1280,
    "input_token_details": {"cache_read": 1000},
}


class Scripted(BaseChatModel):
    """Makes the calls that it was given, one a turn, and then says that it is done."""

    calls: list[tuple[str, dict[str, Any]]]
    name_of_calls: str
    model_name: str = "scripted-1"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        calls = []
        if turn < len(self.calls):
            name, args = self.calls[turn]
            calls = [{"name": name, "args": args, "id": f"call_{self.name_of_calls}{turn}", "type": "tool_call"}]
        text = "I look again." if calls else "I am done."
        answer = AIMessage(
            content=text, tool_calls=calls, usage_metadata=USED, response_metadata={"model_name": self.model_name}
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def delete_asset(asset_id: str) -> str:
    """Delete an asset."""
    return f"{asset_id} still exists"


@tool
def describe_asset(asset_id: str) -> str:
    """Describe an asset."""
    raise ValueError(f"no such asset: {asset_id}")


@tool
def delegate(task: str) -> str:
    """Give a task to another agent."""
    model = Scripted(calls=[("delete_asset", {"asset_id": "fact_orders"})], name_of_calls="b")
    helper = create_agent(model, tools=[delete_asset], name="helper")
    state = helper.invoke({"messages": [{"role": "user", "content": task}]})
    return str(state["messages"][-1].content)


def run(config: dict[str, Any]) -> None:
    """The run that is recorded; its last call fails."""
    deletes = [("delete_asset", {"asset_id": "fact_sales"})] * 3
    calls = [*deletes, ("delegate", {"task": "clean up fact_orders"}), ("describe_asset", {"asset_id": "none"})]
    model = Scripted(calls=calls, name_of_calls="a")
    agent = create_agent(model, tools=[delete_asset, describe_asset, delegate], name="cleaner")
    try:
        agent.invoke({"messages": [{"role": "user", "content": "clean up fact_sales"}]}, config)
    except ValueError as error:
        print(f"the run ended with {error!r}, as it was to")
