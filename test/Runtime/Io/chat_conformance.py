#!/usr/bin/env python3
"""Compares our chat templates with those that transformers renders.

usage: chat_conformance.py PROBE
       chat_conformance.py --record | --check

Templates in the styles of many models, and small ones for each thing that Jinja has,
are rendered with conversations of several kinds. What transformers makes of them is
recorded in test/Oracles: --record writes the record anew, --check compares it with
what transformers does now.
"""
import json
import os
import subprocess
import sys

import chat_cases

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Oracles",
                      "chats.json")

USER = {"role": "user", "content": "  Hello, <b>wörld</b>\n"}
ASSISTANT = {"role": "assistant", "content": "Hi! "}
SYSTEM = {"role": "system", "content": "Be 'brief'. "}
CALL = {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "id": "abcdefghi", "function": {
        "name": "weather", "arguments": {"city": "Köln", "days": 2, "metric": True}}}]}
RESULT = {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi",
          "content": '{"sky": "grey"}'}
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer", "default": 1.5}}}}}]
PARTS = {"role": "user", "content": [{"type": "text", "text": "What is "},
                                     {"type": "image"}, {"type": "text", "text": "it?"}]}

CONVERSATIONS = {
    "one": {"messages": [USER]},
    "prompt": {"messages": [USER], "add_generation_prompt": True},
    "turns": {"messages": [SYSTEM, USER, ASSISTANT, USER], "add_generation_prompt": True},
    "answered": {"messages": [USER, ASSISTANT]},
    "wrong": {"messages": [USER, USER, ASSISTANT]},
    "tools": {"messages": [SYSTEM, USER, CALL, RESULT], "tools": TOOLS,
              "add_generation_prompt": True},
    "parts": {"messages": [PARTS]},
    "none": {"messages": []},
}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

STYLES = {
    "chatml": """{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}""",
    "default-system": """
{% if messages[0]['role'] != 'system' -%}
  {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' -}}
{%- endif %}
{% for message in messages %}
    {%- if loop.first and message.role == "system" %}[[{{ message.content | trim }}]]
    {% else %}
<{{ message.role | upper }}> {{ message.content }}
    {% endif %}
{%- endfor %}""",
    "instruct": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}""",
    "headers": """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "You have these functions:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "qwen": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or not loop.last and content) %}
            {{- '<think>\\n' + content.split('</think>')[-1].lstrip('\\n') + '\\n' }}
        {%- endif %}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '<tool_call>\\n{"name": "' ~ tool_call.name ~ '", "arguments": ' ~ (tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson) ~ '}\\n</tool_call>' }}
        {%- endfor %}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}""",
    "zephyr": """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
    "nemo": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("Roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS][" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif (message.tool_calls is defined and message.tool_calls is not none) %}
        {{- "[TOOL_CALLS][" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Ids have nine characters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
        {%- endfor %}
        {{- "]" + eos_token }}
    {%- elif message["role"] == "assistant" %}
        {{- message["content"] + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {{- '[TOOL_RESULTS]{"content": ' + message.content|string + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- endif %}
{%- endfor %}""",
    "macros": """{%- macro parameters(properties, required=[]) -%}
  {%- for name, spec in properties.items() | sort -%}
    {{ name }}: {{ spec.type }}{{ '?' if name not in required }}{{ ' = ' ~ spec.default if spec.default is defined }}{% if not loop.last %}, {% endif %}
  {%- endfor -%}
{%- endmacro -%}
{%- macro say(who, text='...') %}<{{ who }}>{{ text }}{{ caller_tail | default('$') }}{% endmacro -%}
{% if tools %}
{% for tool in tools %}
function {{ tool.function.name }}({{ parameters(tool.function.parameters.properties, required=tool.function.parameters.required) }})
{% endfor %}
{% endif %}
{% for m in messages -%}
  {{ say(m.role, text=m.content) if m.content else say(m.role) }}
{% endfor %}""",
    "parts": """{% for message in messages %}<|{{ message['role'] }}|>{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% elif part.type in ['image', 'video'] %}<image>{% endif %}{% endfor %}{% endif %}{% if not loop.last %}
{% endif %}{% endfor %}""",
    "generation": """{% for message in messages %}{% if message.role == 'assistant' %}A:{% generation %} {{ message.content }}{% endgeneration %}{% else %}U: {{ message.content }}{% endif %}
{% endfor %}""",
    "loops": """{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% if loop.index > 3 %}{% break %}{% endif %}{{ loop.index }}/{{ loop.length }}:{{ loop.revindex0 }}{{ loop.cycle('a', 'b') }} {{ loop.previtem.role if not loop.first }}>{{ loop.nextitem.role if loop.nextitem is defined }};{% else %}nobody{% endfor %}""",
    "loops that end": """{% for m in messages %}{{ loop.depth }}{{ loop.depth0 }}{{ m.role }}{% if m.role == 'assistant' %}{% break %}{% endif %}{% else %}all{% endfor %}{% for m in messages %}{% break %}{% else %}none{% endfor %}{% for m in messages %}{% continue %}{% else %}none{% endfor %}""",
    "given": """{%- macro say(who, text='...') %}<{{ who }}>{{ text }}{% endmacro -%}
{% for m in messages %}{{ say(m.role, m.name) }}{{ say(m.role, text=m.name) }}{{ say(m.role) }}{% endfor %}""",
    "white space": """  {# a comment #}
  {%- if true %}
    a
  {% endif -%}
    b   {{- 'c' -}}   d
	{%+ if true %}e{% endif %}
  {% set x %}
   kept {{ messages | length }}
  {% endset %}
[{{ x }}]{# another -#}

  f
{%- for i in range(3) %} {{ i }} {%- endfor +%}

g
""",
    "named turns": """{%- set names = {'user': 'USER', 'assistant': 'ASSISTANT'} -%}
{%- if messages and messages[0].role == 'system' -%}
    {%- set intro, rest = messages[0].content.strip(), messages[1:] -%}
{%- else -%}
    {%- set intro, rest = 'A talk.', messages -%}
{%- endif -%}
{{ bos_token ~ intro }}
{%- for message in rest -%}
    {{ '\\n' if loop.first else ' ' }}{{ names.get(message.role, message.role | upper) }}: {{ message.content }}
    {%- if message.role == 'assistant' %}{{ eos_token }}{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %} ASSISTANT:{% endif %}""",
    "headings": """{% for message in messages %}
{% if message['role'] == 'system' %}
{{ message['content'] }}

{% elif message['role'] == 'user' %}
### Instruction:
{{ message['content'] | trim }}

{% elif message['role'] in ('assistant', 'model') -%}
### Response:
{{ message['content'] | trim }}{{ eos_token }}

{% else %}
{{ raise_exception('Unknown role: ' ~ message['role']) }}
{% endif %}
{% endfor %}
{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}
### Response:
{% endif %}""",
    "ends": """{% for m in messages %}{% if m['role'] not in ['system', 'user', 'assistant'] %}{% continue %}{% endif %}{{ '<|' ~ m['role'] ~ '|>\\n' ~ (m['content'] or '') ~ '<|end|>\\n' }}{% endfor %}{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}""",
    "thoughts": """{%- set ns = namespace(is_first=false, is_tool=false, system='') -%}
{%- for message in messages if message['role'] == 'system' -%}
    {%- set ns.system = ns.system + ('\\n\\n' if ns.system else '') + message['content'] -%}
{%- endfor -%}
{{- bos_token }}{{ ns.system }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- set ns.is_tool = false -%}
        {{- '<|User|>' + message['content'] }}
    {%- elif message['role'] == 'assistant' and message['tool_calls'] is defined %}
        {%- for tool in message['tool_calls'] %}
            {%- if not ns.is_first %}
                {{- '<|Assistant|>' if message['content'] is none else '<|Assistant|>' + message['content'] }}
                {{- '<|calls|><|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments'] | tojson + '\\n```' }}
                {%- set ns.is_first = true -%}
            {%- else %}
                {{- '\\n<|call|>' + tool['function']['name'] }}
            {%- endif %}
        {%- endfor %}
        {{- '<|calls end|>' }}
    {%- elif message['role'] == 'assistant' %}
        {%- set content = message['content'] %}
        {%- if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}
        {{- ('<|outputs end|>' if ns.is_tool else '<|Assistant|>') + content + eos_token }}
        {%- set ns.is_tool = false -%}
    {%- elif message['role'] == 'tool' %}
        {{- ('\\n' if ns.is_tool else '<|outputs|>') + '<|output|>' + message['content'] }}
        {%- set ns.is_tool = true -%}
    {%- endif %}
{%- endfor -%}
{%- if ns.is_tool %}{{ '<|outputs end|>' }}{% endif %}
{%- if add_generation_prompt and not ns.is_tool %}{{ '<|Assistant|><think>\\n' }}{% endif %}""",
    "types": """{%- macro type_of(spec) %}
    {%- set names = {'string': 'str', 'number': 'float', 'integer': 'int', 'boolean': 'bool'} %}
    {%- if names[spec.type] is defined %}
        {{- names[spec.type] }}
    {%- elif spec.type == 'array' %}
        {{- 'list[' + type_of(spec['items']) + ']' }}
    {%- elif spec.type == 'object' %}
        {{- 'dict' if spec.additionalProperties is not defined else 'dict[str, ' + type_of(spec.additionalProperties) + ']' }}
    {%- elif spec.type is iterable and spec.type is not string %}
        {{- 'Union[' }}
        {%- for one in spec.type %}
            {{- type_of({'type': one}) }}{{ ', ' if not loop.last }}
        {%- endfor %}
        {{- ']' }}
    {%- else %}
        {{- 'Any' }}
    {%- endif %}
{%- endmacro %}
{{- bos_token }}
{%- for tool in tools or [] %}
    {%- if tool.function is defined %}{% set tool = tool.function %}{% endif %}
    {{- 'def ' + tool.name + '(' }}
    {%- for name, spec in tool.parameters.properties | items %}
        {{- name + ': ' + type_of(spec) }}
        {%- if 'default' in spec %}{{ ' = ' ~ spec.default }}{% endif %}
        {{- '' if loop.last else ', ' }}
    {%- endfor %}
    {{- ') -> ' + type_of(tool.return | default({'type': ['string', 'null']})) + ': ' + tool.description | tojson + '\\n' }}
{%- endfor %}
{{- type_of({'type': 'array', 'items': {'type': 'object', 'additionalProperties': {'type': 'integer'}}}) }}
{%- for message in messages %}
{{ message.role }}={{ message.content | default('-', true) }}
{%- endfor %}""",
    "channels": """{%- macro schema(spec, depth=0) -%}
    {%- if spec.type == 'object' -%}
        {{ '{\\n' }}
        {%- for name, inner in spec.properties.items() -%}
            {{ '  ' * (depth + 1) }}{{ name }}{{ '' if name in (spec.required or []) else '?' }}: {{ schema(inner, depth + 1) }}{{ ',\\n' }}
        {%- endfor -%}
        {{ '  ' * depth ~ '}' }}
    {%- elif spec.enum -%}
        {{ spec.enum | map('tojson') | join(' | ') }}
    {%- else -%}
        {{ spec.type if spec.type != 'integer' else 'number' }}
        {%- if spec.default is defined %} // default: {{ spec.default }}{% endif -%}
    {%- endif -%}
{%- endmacro -%}
{%- set last = namespace(call='') -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {{ '<|start|>developer<|message|># Rules\\n' ~ message.content }}
        {%- if tools %}{% for tool in tools %}{{ '\\ntype ' ~ tool.function.name ~ ' = ' ~ schema(tool.function.parameters) }}{% endfor %}{% endif %}
        {{- '<|end|>' }}
    {%- elif message.role == 'assistant' and message.tool_calls -%}
        {%- set call = message.tool_calls[0].function -%}
        {%- set last.call = call.name -%}
        {{ '<|start|>assistant to=functions.' ~ call.name ~ '<|channel|>commentary json<|message|>' ~ call.arguments | tojson ~ '<|call|>' }}
    {%- elif message.role == 'assistant' -%}
        {{ '<|start|>assistant<|channel|>final<|message|>' ~ message.content ~ ('<|return|>' if loop.last and not add_generation_prompt else '<|end|>') }}
    {%- elif message.role == 'tool' -%}
        {%- if not last.call %}{{ raise_exception('No call came before') }}{% endif -%}
        {{ '<|start|>functions.' ~ last.call ~ ' to=assistant<|message|>' ~ message.content | tojson ~ '<|end|>' }}
    {%- else -%}
        {{ '<|start|>' ~ message.role ~ '<|message|>' ~ message.content ~ '<|end|>' }}
    {%- endif -%}
{%- endfor -%}
{{ '<|start|>assistant' if add_generation_prompt }}""",
    "modes": """{%- set system = messages[0].content if messages and messages[0].role == 'system' else '' -%}
{%- set mode = '/no_think' if '/no_think' in system else ('/think' if enable_thinking | default(true) else '/no_think') -%}
{%- set told = system.replace('/no_think', '').replace('/think', '').rstrip() -%}
<|im_start|>system
## Mode: {{ mode }}

{{ told if told else 'You are of use.' }}
{%- if tools %}

### Tools
{% for tool in tools -%}
- {{ tool | tojson | replace('"', "'") }}
{% endfor %}
{%- endif %}<|im_end|>
{% for message in (messages[1:] if system else messages) -%}
{%- set content = message.content if message.content is string else (message.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') if message.content else '') -%}
<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{% if message.role == 'assistant' and mode == '/no_think' %}{{ '<think>\\n\\n</think>\\n' + content.lstrip('\\n') }}{% else %}{{ content | trim }}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{{ '<think>\\n\\n</think>\\n' if mode == '/no_think' }}{% endif %}""",
}

EXPRESSIONS = """1 + 2 * 3 - 4 // 3 ** 2 % 5; -7 // 2; -7 % 3; 7 / 2; 2 ** 10; 1.0; 1e3 is defined; 3.50; -(2); not true;
1 < 2 < 3; 1 == 1.0; "a" < "b"; "a" in "cab"; 3 not in [1, 2]; true and 0 or "x"; none or []; (1, 2); {"a": 1, "b": [true, none]};
"it's" ~ 1 ~ none ~ true; ["a'b", "c\\nd", 1.5]; "abc"[1]; "abc"[-1]; "abcdef"[1:4]; [1,2,3,4][::-1]; [1,2,3,4][:-1]; "héllo"[1:3]; [1][5] is undefined;
x is defined; x | default("y"); "" | default("y", true); none is none; 3 is odd; 4 is even; 6 is divisibleby 3; 1 is number; "a" is string; {} is mapping; [] is sequence;
1 is integer; true is boolean; true is integer; 1.5 is float; "a" is eq "a"; 5 is gt(3); 2 in {"2": 1}; "k" in {"k": 1};
" a b ".strip() ~ "|"; "xxaxx".strip("x"); "a,b,,c".split(","); " a  b ".split(); "a,b,c".split(",", 1); "a-b".replace("-", "+"); "abab".replace("a", "c", 1);
"Hello wOrld".title(); "they're bill's (a-bC) {x <y [zÉ  q"|title; "they're"|title == "they're".title(); "abé"|reverse; "hello World"|capitalize; "ß é"|upper; "ÀB"|lower; "abc".startswith("ab"); "abc".endswith(("x", "c")); "abc".find("c"); "aXbX".count("X"); "a\\nb".splitlines();
"a\\r\\nc\\rd\\x0be\\n".splitlines(); "1.5x"|int; "1.5"|int; " 7 "|int; "0x1f"|int(base=16); "1e3"|int; "x"|int(5); "2.5x"|float; "y"|float(1.5);
2.567|round(1, "floor"); 2.543|round(1, "ceil"); -2.5|round(0, "floor"); 3.5|round; ["a", "A", "b"]|unique|list; ["a", "A"]|unique(true)|list;
{"b": 1, "a": [1, 2]}|tojson(separators=(",", ":")); {"b": 1, "a": {"d": 1, "c": 2}}|tojson(sort_keys=true); {"b": "é"}|tojson(ensure_ascii=true); [1]|tojson(indent=2, separators=(", ", ":"));
["b", "A", "a", "B"]|sort; ["b", "A", "a", "B"]|sort(case_sensitive=true); [{"n": 1, "k": "x"}, {"n": 2, "k": "y"}, {"n": 1, "k": "z"}]|sort(attribute="n", reverse=true)|map(attribute="k")|join; {"a": 2, "B": 1}|dictsort(by="value"); {"a": 2, "B": 1}|dictsort(reverse=true); {"a": 2, "B": 1}|dictsort(true);
[3, 1, 2]|min; ["b", "A", "a"]|min; ["b", "B", "a"]|max; [{"n": 2}, {"n": 5}]|max(attribute="n"); []|max is undefined; [{"a": {"b": [5, 7]}}]|map(attribute="a.b.1")|list; [{"a": {"b": 0}}, {"a": {"b": 1}}]|selectattr("a.b")|list|length;
{"b": 1, "a": 2}|dictsort; {"b": 1, "a": 2}.items()|list; {"b": 1}.get("c"); {"b": 1}.get("c", 3); {"b": 1}.keys()|list; {"b": 1}.values()|list;
[3, 1, 2]|sort; [3, 1, 2]|sort(reverse=true); [1, 1, 2]|unique|list; [1, 2]|reverse|list; [1, 2]|first; [1, 2]|last; []|first is undefined; [1, 2]|join(", "); ["a", "b"]|join;
[{"n": "x"}, {"n": "y"}]|map(attribute="n")|join("-"); ["a", "b"]|map("upper")|list; [1, 2, 3]|select("odd")|list; [1, 2, 3]|reject("odd")|list; [{"n": 1}, {"n": 0}]|selectattr("n")|list|length;
[{"n": 1}, {"m": 0}]|rejectattr("n", "defined")|list; "3"|int + 1; "x"|int; "1.5"|float; 3|string ~ "a"; "abc"|list; "a\\nb\\n\\nc"|indent(2); "a\\nb"|indent(2, true); -3|abs; 2.567|round(1); 2.5|round;
"<a> & 'b'"|e; {"k": [1, 2.5, "ü\\"\\n", none, true]}|tojson; {"k": {"l": []}, "m": [1]}|tojson(indent=2); []|tojson(indent=2); range(2, 10, 3)|list; "a" "b"; "\\u00e9\\t|"; 'it\\'s';
namespace(a=1).a; dict(a=1)["a"]; [1, 2] + [3]; "ab" * 2; [0] * 3; 10 > 9 and 9 >= 9; "a" if false; "a" if false else "b"; "x" if x is defined else "no x"; ("a" ~ "b")|length; -2|abs; "a"|upper ~ "b"|upper;
not not 1; 5|round; 5.55|round(1); 0.15|round(1); 2.675|round(2); 2.5|round(2); 7|round(0, "floor"); true|round; dict({"a": 1}, b=2); dict([1]); namespace({"a": 1}, b=2).a;
nothing.member; 1 + "a"; raise_exception("stop"); 1 // 0; "a" | nofilter; 1 is notest; foo(; undefined_name(1); "a".nomethod(); {"a": 1}.a; {"items": 1}["items"]; messages[0].role; 1 if messages else 2"""


def cases():
    """Names, templates and variables."""
    base = {"tools": None, "documents": None, "add_generation_prompt": False, **TOKENS}
    for style, text in STYLES.items():
        for kind, given in CONVERSATIONS.items():
            yield f"{style}, {kind}", text, {**base, **given}
    for expression in EXPRESSIONS.replace(";\n", "; ").split("; "):
        yield expression, "{{ " + expression + " }}", {**base, **CONVERSATIONS["one"]}
    for name, template, more in chat_cases.cases():
        yield name, template, {**base, **CONVERSATIONS["one"], **more}


def ask_package():
    from transformers.utils.chat_template_utils import _compile_jinja_template
    answers = {}
    for name, template, variables in cases():
        try:
            answers[name] = _compile_jinja_template(template).render(**variables)
        except Exception:
            answers[name] = None
    return answers


def ask_probe(probe):
    lines = "".join(json.dumps([template, variables]) + "\n"
                    for _, template, variables in cases())
    run = subprocess.run([probe, "render"], input=lines, stdout=subprocess.PIPE,
                         text=True, check=True)
    return {name: json.loads(line)
            for (name, _, _), line in zip(cases(), run.stdout.splitlines(), strict=True)}


def main():
    what = sys.argv[1]
    if what == "--record":
        with open(RECORD, "w") as file:
            json.dump(ask_package(), file, indent=0)
            file.write("\n")
        return 0
    with open(RECORD) as file:
        record = json.load(file)
    if what == "--check":
        return 0 if ask_package() == record else 1
    answers = ask_probe(what)
    wrong = [name for name in record if answers[name].get("text") != record[name]]
    print(f"{len(record)} templates, {len(wrong)} differ")
    for name in wrong[:40]:
        print(f"{name}\n  {answers[name]!r:.400}\n  {record[name]!r:.400}")
    return 1 if wrong or answers.keys() != record.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
