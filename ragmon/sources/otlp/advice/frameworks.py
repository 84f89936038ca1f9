"""Lines to add to an application's code, for each framework, by the names of its spans' scopes."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONTENT = "content"
"""Stands for the texts: question, answer and passages."""
WHOLE = "whole"
"""Stands for a span that is a query by itself: it has a question and an answer."""


class Framework(NamedTuple):
    """An instrumentation and its lines, by field or ``CONTENT``."""

    name: str
    scopes: tuple[str, ...]  # beginnings of the names
    lines: Mapping[str, str]


_RESOURCE = {
    "version": "export OTEL_RESOURCE_ATTRIBUTES=service.name=shop,service.version=1.2",
    "environment": "export OTEL_RESOURCE_ATTRIBUTES=service.name=shop,"
    "deployment.environment.name=production",
}
_IN_PYTHON = {
    WHOLE: 'span.set_attributes({"openinference.span.kind": "CHAIN", "input.value": question, '
    '"output.value": answer})',
    CONTENT: 'span.set_attribute("input.value", question); '
    'span.set_attribute("output.value", answer)',
    "chunks": 'span.set_attributes({"openinference.span.kind": "RETRIEVER", "output.value": '
    'json.dumps([{"id": hit.id, "score": hit.score, "text": hit.text} for hit in hits])})',
    "session_id": 'trace.get_current_span().set_attribute("session.id", session_id)',
    "user_id": 'trace.get_current_span().set_attribute("user.id", user_id)',
    "model": 'span.set_attributes({"openinference.span.kind": "LLM", "llm.model_name": model})',
    "tokens": 'span.set_attributes({"openinference.span.kind": "LLM", "llm.token_count.prompt": '
    'usage.prompt_tokens, "llm.token_count.completion": usage.completion_tokens})',
}
_IN_JAVASCRIPT = {
    WHOLE: "span.setAttributes({'openinference.span.kind': 'CHAIN', 'input.value': question, "
    "'output.value': answer})",
    CONTENT: "span.setAttributes({'input.value': question, 'output.value': answer})",
    "chunks": "span.setAttributes({'openinference.span.kind': 'RETRIEVER', 'output.value': "
    "JSON.stringify(hits.map(({id, score, text}) => ({id, score, text})))})",
    "session_id": "trace.getActiveSpan()?.setAttribute('session.id', sessionId)",
    "user_id": "trace.getActiveSpan()?.setAttribute('user.id', userId)",
    "model": "span.setAttributes({'openinference.span.kind': 'LLM', 'llm.model_name': model})",
    "tokens": "span.setAttributes({'openinference.span.kind': 'LLM', 'llm.token_count.prompt': "
    "usage.prompt_tokens, 'llm.token_count.completion': usage.completion_tokens})",
}
_IN_GO = {
    WHOLE: 'span.SetAttributes(attribute.String("openinference.span.kind", "CHAIN"), '
    'attribute.String("input.value", question), attribute.String("output.value", answer))',
    CONTENT: 'span.SetAttributes(attribute.String("input.value", question), '
    'attribute.String("output.value", answer))',
    "chunks": 'span.SetAttributes(attribute.String("openinference.span.kind", "RETRIEVER"), '
    'attribute.String("output.value", documentsAsJSON))',
    "session_id": 'trace.SpanFromContext(ctx).SetAttributes(attribute.String("session.id", id))',
    "user_id": 'trace.SpanFromContext(ctx).SetAttributes(attribute.String("user.id", user))',
}
_ANYWHERE = {
    "python": _IN_PYTHON, "nodejs": _IN_JAVASCRIPT, "webjs": _IN_JAVASCRIPT, "go": _IN_GO,
}  # fmt: skip
_USAGE_OF_STREAMS = "client.chat.completions.create(…, stream_options={'include_usage': True})"
_GENAI_CONTENT = (
    "export OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"
)
_INSTRUMENT_LITELLM = "LiteLLMInstrumentor().instrument(tracer_provider=provider)"
_OPENINFERENCE = {
    CONTENT: "unset OPENINFERENCE_HIDE_INPUTS OPENINFERENCE_HIDE_OUTPUTS "
    "OPENINFERENCE_HIDE_INPUT_MESSAGES OPENINFERENCE_HIDE_OUTPUT_MESSAGES",
    "session_id": "with openinference.instrumentation.using_session(session_id): …",
    "user_id": "with openinference.instrumentation.using_user(user_id): …",
}
_TRACELOOP_TEXT = "export TRACELOOP_TRACE_CONTENT=true"

FRAMEWORKS = (
    Framework(
        "OpenInference for LangChain",
        ("openinference.instrumentation.langchain",),
        {**_OPENINFERENCE, "tokens": "ChatOpenAI(…, stream_usage=True)"},
    ),
    Framework(
        "OpenInference for LlamaIndex",
        ("openinference.instrumentation.llama_index",),
        {
            **_OPENINFERENCE,
            "tokens": "OpenAI(…, additional_kwargs={'stream_options': {'include_usage': True}})",
        },
    ),
    Framework(
        "OpenInference for Haystack",
        ("openinference.instrumentation.haystack",),
        {
            **_OPENINFERENCE,
            "tokens": "OpenAIGenerator(…, generation_kwargs={'stream_options': "
            "{'include_usage': True}})",
        },
    ),
    Framework(
        "OpenInference for a framework that calls models through LiteLLM",
        ("openinference.instrumentation.dspy", "openinference.instrumentation.crewai"),
        {**_OPENINFERENCE, "model": _INSTRUMENT_LITELLM, "tokens": _INSTRUMENT_LITELLM},
    ),
    Framework(
        "OpenInference",
        ("openinference.",),
        {**_OPENINFERENCE, "tokens": _USAGE_OF_STREAMS},
    ),
    Framework(
        "OpenInference for JavaScript",
        ("@arizeai/",),
        {
            CONTENT: "unset OPENINFERENCE_HIDE_INPUTS OPENINFERENCE_HIDE_OUTPUTS",
            "session_id": "context.with(setSession(context.active(), {sessionId}), () => …)",
            "user_id": "context.with(setUser(context.active(), {userId}), () => …)",
            "tokens": "client.chat.completions.create({…, stream_options: {include_usage: true}})",
        },
    ),
    Framework(
        "OpenLLMetry for JavaScript",
        ("@traceloop/",),
        {
            CONTENT: "traceloop.initialize({…, traceContent: true})",
            "session_id": "traceloop.withAssociationProperties({session_id: sessionId}, () => …)",
            "user_id": "traceloop.withAssociationProperties({user_id: userId}, () => …)",
            "tokens": "client.chat.completions.create({…, stream_options: {include_usage: true}})",
        },
    ),
    Framework(
        "OpenTelemetry's GenAI instrumentation",
        (
            "opentelemetry.util.genai",
            "opentelemetry.instrumentation.openai_v2",
            "opentelemetry.instrumentation.openai_agents",
            "opentelemetry.instrumentation.google_genai",
            "opentelemetry.instrumentation.vertexai_v2",
            "opentelemetry.instrumentation.botocore",
            "opentelemetry.instrumentation.genai",
        ),
        {CONTENT: _GENAI_CONTENT, "tokens": _USAGE_OF_STREAMS},
    ),
    Framework(
        "OpenLLMetry",
        ("opentelemetry.instrumentation.", "traceloop."),
        {
            CONTENT: _TRACELOOP_TEXT,
            "session_id": 'Traceloop.set_association_properties({"session_id": session_id})',
            "user_id": 'Traceloop.set_association_properties({"user_id": user_id})',
            "model": "OpenAIInstrumentor().instrument(tracer_provider=provider)",
            "tokens": _USAGE_OF_STREAMS,
        },
    ),
    Framework(
        "Langfuse",
        ("langfuse",),
        {
            CONTENT: "langfuse.update_current_span(input=question, output=answer)",
            "chunks": "@observe(as_type='retriever')",
            "model": "@observe(as_type='generation') and "
            "langfuse.update_current_generation(model=model)",
            "tokens": "langfuse.update_current_generation(usage_details={'input': n, 'output': m})",
            "session_id": "with propagate_attributes(session_id=session_id): …",
            "user_id": "with propagate_attributes(user_id=user_id): …",
        },
    ),
    Framework(
        "MLflow",
        ("mlflow",),
        {
            "chunks": "@mlflow.trace(span_type='RETRIEVER')",
            "model": "mlflow.openai.autolog()",
            "tokens": "mlflow.get_current_active_span().set_attribute('mlflow.chat.tokenUsage', "
            "{'input_tokens': n, 'output_tokens': m, 'total_tokens': n + m})",
            "session_id": "mlflow.update_current_trace(tags={'session_id': session_id})",
            "user_id": "mlflow.update_current_trace(tags={'user_id': user_id})",
        },
    ),
    Framework(
        "LangSmith",
        ("langsmith",),
        {
            CONTENT: "unset LANGSMITH_HIDE_INPUTS LANGSMITH_HIDE_OUTPUTS",
            "chunks": "@traceable(run_type='retriever')",
            "model": "client = wrap_openai(openai.OpenAI())",
            "tokens": "client = wrap_openai(openai.OpenAI())",
            "session_id": "chain.invoke(…, config={'metadata': {'session_id': session_id}})",
            "user_id": "chain.invoke(…, config={'metadata': {'user_id': user_id}})",
        },
    ),
    Framework(
        "Haystack's own tracer",
        ("haystack",),
        {
            CONTENT: "export HAYSTACK_CONTENT_TRACING_ENABLED=true",
            "tokens": "OpenAIGenerator(…, generation_kwargs={'stream_options': "
            "{'include_usage': True}})",
            "session_id": 'with tracer.start_as_current_span("ask", attributes={"session.id": '
            "session_id}): pipeline.run(…)",
            "user_id": 'with tracer.start_as_current_span("ask", attributes={"user.id": user_id}): '
            "pipeline.run(…)",
        },
    ),
    Framework(
        "Vercel AI SDK 7",
        ("gen_ai",),
        {
            CONTENT: "registerTelemetry(new OpenTelemetry({runtimeContext: true}))",
            "session_id": "generateText({…, runtimeContext: {sessionId}})",
            "user_id": "generateText({…, runtimeContext: {userId}})",
        },
    ),
    Framework(
        "Vercel AI SDK",
        ("ai",),
        {
            CONTENT: "experimental_telemetry: {isEnabled: true, recordInputs: true, "
            "recordOutputs: true}",
            "chunks": "tracer.startActiveSpan('search', {attributes: {'openinference.span.kind': "
            "'RETRIEVER'}}, …) around the search, its result as 'output.value'",
            "session_id": "experimental_telemetry: {isEnabled: true, metadata: {sessionId}}",
            "user_id": "experimental_telemetry: {isEnabled: true, metadata: {userId}}",
        },
    ),
    Framework(
        "Mastra",
        ("@mastra/",),
        {
            "session_id": "agent.generate(question, {tracingOptions: {metadata: {sessionId}}})",
            "user_id": "agent.generate(question, {tracingOptions: {metadata: {userId}}})",
            "chunks": "createVectorQueryTool({…}) among the agent's tools",
        },
    ),
    Framework(
        "Pydantic AI",
        ("pydantic-ai", "pydantic_ai"),
        {CONTENT: "Agent.instrument_all(InstrumentationSettings(include_content=True))"},
    ),
    Framework(
        "Logfire",
        ("logfire",),
        {
            CONTENT: "@logfire.instrument(extract_args=True, record_return=True)",
            "version": "logfire.configure(service_version='1.2')",
            "environment": "logfire.configure(environment='production')",
            "tokens": _USAGE_OF_STREAMS,
        },
    ),
    Framework(
        "LangWatch",
        ("langwatch",),
        {
            "chunks": "langwatch.get_current_span().update(contexts=[RAGChunk(document_id=id, "
            "content=text)])",
            "session_id": "langwatch.get_current_trace().update(metadata={'thread_id': "
            "session_id})",
            "user_id": "langwatch.get_current_trace().update(metadata={'user_id': user_id})",
        },
    ),
    Framework(
        "Laminar",
        ("lmnr",),
        {
            "session_id": "Laminar.set_trace_session_id(session_id)",
            "user_id": "Laminar.set_trace_user_id(user_id)",
            "tokens": _USAGE_OF_STREAMS,
        },
    ),
    Framework(
        "OpenLIT",
        ("openlit",),
        {
            CONTENT: "openlit.init(…, capture_message_content=True)",
            "environment": "openlit.init(…, environment='production')",
            "tokens": _USAGE_OF_STREAMS,
        },
    ),
    Framework(
        "Strands",
        ("strands",),
        {
            "session_id": "Agent(…, trace_attributes={'session.id': session_id})",
            "user_id": "Agent(…, trace_attributes={'user.id': user_id})",
        },
    ),
    Framework(
        "Semantic Kernel",
        ("semantic_kernel", "Microsoft.SemanticKernel"),
        {
            CONTENT: "export SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE="
            "true, and OTEL_LOGS_EXPORTER=otlp, as the texts come in log events",
        },
    ),
    Framework(
        "Microsoft agent-framework",
        ("agent_framework", "Microsoft.Agents"),
        {CONTENT: "enable_instrumentation(enable_sensitive_data=True)"},
    ),
    Framework(
        "AutoGen, which records no texts",
        ("autogen",),
        {
            CONTENT: "OpenAIInstrumentor().instrument(tracer_provider=provider) of "
            "openinference-instrumentation-openai, below AutoGen's own spans",
        },
    ),
    Framework(
        "Spring AI",
        ("org.springframework",),
        {
            CONTENT: "in an ObservationFilter: context.addHighCardinalityKeyValue(KeyValue.of("
            '"gen_ai.completion", chat.getResponse().getResult().getOutput().getText()))',
            "chunks": "in an ObservationFilter: context.addHighCardinalityKeyValue(KeyValue.of("
            '"gen_ai.retrieval.documents", JsonParser.toJson(search.getQueryResponse())))',
            "session_id": 'spec.advisors(a -> a.param(ChatMemory.CONVERSATION_ID, "…"))',
            "version": "management.opentelemetry.resource-attributes.service.version=1.2",
            "environment": "management.opentelemetry.resource-attributes."
            "deployment.environment.name=production",
        },
    ),
    Framework(
        "Langtrace",
        ("langtrace_python_sdk",),
        {
            CONTENT: "export TRACE_PROMPT_COMPLETION_DATA=true",
            "session_id": 'inject_additional_attributes(call, {"session.id": session_id})',
            "user_id": 'inject_additional_attributes(call, {"user.id": user_id})',
        },
    ),
    Framework(
        "Monocle",
        ("monocle_apptrace",),
        {
            WHOLE: 'with monocle_trace("ask"): …',
            "session_id": 'with monocle_trace_scope("session", session_id): …',
            "user_id": 'with monocle_trace_scope("user", user_id): …',
        },
    ),
    Framework(
        "LiteLLM",
        ("litellm",),
        {
            CONTENT: "litellm.turn_off_message_logging = False",
            "session_id": "litellm.completion(…, metadata={'session_id': session_id})",
            "user_id": "litellm.completion(…, user=user_id)",
            "tokens": "litellm.completion(…, stream_options={'include_usage': True})",
        },
    ),
)
"""The first whose scope fits counts, so the special ones come before the general."""


def framework_of(scope: str) -> Framework | None:
    """The framework of a scope; None when it is an application's own."""
    return next(
        (one for one in FRAMEWORKS for begin in one.scopes if _begins(scope, begin)),
        None,
    )


def _begins(scope: str, begin: str) -> bool:
    rest = scope[len(begin) :]
    is_whole_word = begin[-1] in "./" or not rest or not rest[0].isalnum()
    return scope.startswith(begin) and is_whole_word


def line_for(field: str, scopes: Iterable[str], language: str) -> tuple[str, str]:
    """The line that records a field, and the framework that it is for.

    Args:
        field: name of the field of a query, or ``CONTENT``.
        scopes: of the spans that should have recorded it, the likeliest first.
        language: of the SDK, as the resource names it; empty: not recorded.

    Returns:
        Line and framework; the framework is empty for what works with each, and the line where
        there is none.
    """
    for scope in scopes:
        framework = framework_of(scope)
        if framework is not None and field in framework.lines:
            return framework.lines[field], framework.name
        if framework is not None and field in _RESOURCE:
            break
    if field in _RESOURCE:
        return _RESOURCE[field], ""
    return _ANYWHERE.get(language, _IN_PYTHON).get(field, ""), ""
