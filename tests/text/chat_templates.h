// Chat templates of our own, in the formats that models were trained on, with what templates stored
// in model files do: alternation checks, default system texts, tools, dates, pictures.
#pragma once
#include <string_view>

namespace outrider::text_test {

// clang-format off
inline constexpr std::string_view kChatml = R"JINJA(
{%- for turn in messages %}{{ '<|im_start|>' ~ turn.role ~ '\n' ~ turn.content ~ '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})JINJA";

// Llama 3.1: header ids, the day in the system turn, tools in the first turn of the user.
inline constexpr std::string_view kHeaderIds = R"JINJA(
{%- macro head(role) %}{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' }}{% endmacro %}
{%- set today = date_string if date_string is defined else strftime_now('%d %b %Y') %}
{%- set turns, system = messages, '' %}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% set turns = messages[1:] %}{% endif %}
{{- bos_token ~ head('system') ~ 'Today Date: ' ~ today ~ '\n\n' ~ system ~ '<|eot_id|>' }}
{%- for turn in turns %}
  {%- if turn.tool_calls %}
    {%- if turn.tool_calls | length > 1 %}{{ raise_exception('one call a turn') }}{% endif %}
    {%- set call = turn.tool_calls[0].function %}
    {{- head('assistant') ~ '{"name": "' + call.name + '", "parameters": ' + call.arguments | tojson + '}' }}
  {%- elif turn.role == 'tool' %}
    {{- head('ipython') ~ turn.content | tojson }}
  {%- else %}
    {{- head(turn.role) }}
    {%- if loop.first and tools %}{{ 'You can call:\n\n' }}{% for tool in tools %}{{ tool | tojson(indent=4) + '\n\n' }}{% endfor %}{% endif %}
    {{- turn.content | trim }}
  {%- endif %}
  {{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ head('assistant') }}{% endif %})JINJA";

// Gemma 2.
inline constexpr std::string_view kModelTurns = R"JINJA({{ bos_token }}
{%- for turn in messages %}
  {%- if turn['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
  {%- if (turn['role'] == 'user') == (loop.index0 % 2 == 1) %}{{ raise_exception('user and assistant must alternate') }}{% endif %}
  {{- '<start_of_turn>' + ('model' if turn['role'] == 'assistant' else turn['role']) + '\n' + turn['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})JINJA";

// Mistral: instructions, tools in front of the last question, call ids of nine characters.
inline constexpr std::string_view kInstructions = R"JINJA(
{%- set turns, system = messages, '' %}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content ~ '\n\n' %}{% set turns = messages[1:] %}{% endif %}
{%- set questions = turns | selectattr('role', 'equalto', 'user') | list %}
{%- set seen = namespace(n=0) %}
{%- for turn in turns if turn.role != 'tool' and not turn.tool_calls %}
  {%- if (turn.role == 'user') != (seen.n % 2 == 0) %}{{ raise_exception('user and assistant must alternate') }}{% endif %}
  {%- set seen.n = seen.n + 1 %}
{%- endfor %}
{{- bos_token }}
{%- for turn in turns %}
  {%- if turn.role == 'user' %}
    {%- if tools and turn == questions[-1] %}
      {{- '[AVAILABLE_TOOLS] [' }}
      {%- for tool in tools %}
        {{- '{"type": "function", "function": {' }}
        {%- for key, value in tool.function.items() if key != 'return' %}{{ '"' ~ key ~ '": ' ~ value | tojson }}{{ ', ' if not loop.last }}{% endfor %}
        {{- '}}' }}{{ ', ' if not loop.last }}
      {%- endfor %}
      {{- '][/AVAILABLE_TOOLS]' }}
    {%- endif %}
    {{- '[INST] ' + (system if loop.last else '') + turn.content + '[/INST]' }}
  {%- elif turn.tool_calls %}
    {{- '[TOOL_CALLS] [' }}
    {%- for call in turn.tool_calls %}{{ '{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson + ', "id": "' + call.id + '"}' }}{{ ', ' if not loop.last }}{% endfor %}
    {{- ']' + eos_token }}
  {%- elif turn.role == 'tool' %}
    {%- if turn.tool_call_id is undefined or turn.tool_call_id | length != 9 %}{{ raise_exception('a call id has length 9') }}{% endif %}
    {{- '[TOOL_RESULTS] {"content": ' ~ turn.content ~ ', "call_id": "' ~ turn.tool_call_id ~ '"}[/TOOL_RESULTS]' }}
  {%- else %}
    {{- ' ' + turn.content + eos_token }}
  {%- endif %}
{%- endfor %})JINJA";

// Phi-3.
inline constexpr std::string_view kRoleMarks = R"JINJA(
{%- for turn in messages %}{{ '<|' ~ turn.role ~ '|>\n' ~ turn.content ~ '<|end|>\n' }}{% endfor %}
{{- '<|assistant|>\n' if add_generation_prompt else eos_token }})JINJA";

// SmolLM: a system text where the caller has none.
inline constexpr std::string_view kDefaultSystem = R"JINJA(
{%- if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou plan for a robot.<|im_end|>\n' }}{% endif %}
{%- for turn in messages %}{{ '<|im_start|>' + turn.role + '\n' + turn.content + '<|im_end|>' + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})JINJA";

// SmolVLM: parts of a turn, pictures among them.
inline constexpr std::string_view kPictures = R"JINJA(<|im_start|>
{%- for turn in messages %}
  {{- turn.role | capitalize ~ (':' if turn.content[0].type == 'image' else ': ') }}
  {%- for part in turn.content %}{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}
  {{- '<end_of_utterance>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})JINJA";
// clang-format on

}  // namespace outrider::text_test
