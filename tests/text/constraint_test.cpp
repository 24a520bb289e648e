#include "text/constraint.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>

#include "alloc_counter.h"
#include "fixtures.h"
#include "language_fixtures.h"
#include "text/byte_automaton.h"
#include "text/integer_grammar.h"

namespace outrider::text_test {
namespace {

Json json(std::string_view text) {
  auto made = Json::parse(text);
  EXPECT_TRUE(made) << text << made.error().message();
  return std::move(made.value());
}

Constraint compiled(std::string_view schema, const LanguageTokenizer& tokenizer) {
  auto made = Constraint::compile(json(schema), tokenizer);
  if (!made) throw std::runtime_error(std::string(schema) + ": " + made.error().text);
  return std::move(made.value());
}

// Pieces that reach over the borders of JSON tokens, and parts of characters.
LanguageTokenizer planner_tokenizer() {
  return byte_bpe_tokenizer({"{\"",          "\":",      "\": ",  ", \"",     "\"}",    "\",",
                             "\",\"",        "true",     "false", "null",     "10",     "-1",
                             "[1",           "]}",       "}}",    "\xC3\xA9", "\xA9\"", "\xE4\xBD",
                             "\xBD\xA0\xE5", "\xF0\x9F", "go",    "stop",     "\"go\"", "st",
                             "\\u",          "\\\"",     " {",    "a\": 1"});
}

bool allows(const Constraint& constraint, Constraint::State state, int32_t id) {
  const TokenMask mask = constraint.allowed(state);
  return (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

bool accepts(const Constraint& constraint, const LanguageTokenizer& tokenizer,
             std::string_view text) {
  Constraint::State state = constraint.start();
  for (const char c : text)
    if (!constraint.advance(state, byte_id(tokenizer, static_cast<uint8_t>(c)))) return false;
  return constraint.complete(state);
}

// All texts of a small finite schema, made another way: by joining lists of texts.
using Texts = std::vector<std::string>;
Texts joined(const Texts& a, const Texts& b) {
  Texts out;
  for (const std::string& x : a)
    for (const std::string& y : b) out.push_back(x + y);
  return out;
}
Texts plus(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Constraint, allows_exactly_the_ids_that_keep_the_text_completable) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  const Constraint constraint = compiled(
      R"({"type":"object","properties":{
            "do":{"enum":["go","stop","é你"]},
            "n":{"type":"integer","minimum":-1,"maximum":12},
            "ok":{"type":["boolean","null"]},
            "l":{"type":"array","items":{"const":1},"maxItems":2}},
          "required":["do","ok"]})",
      tokenizer);
  Texts numbers;
  for (int i = -1; i <= 12; ++i) numbers.push_back(std::to_string(i));
  const Texts comma{",", ", "}, colon{":", ": "};
  const auto entry = [&](const std::string& name, const Texts& values) {
    return joined(joined({"\"" + name + "\""}, colon), values);
  };
  const Texts list = plus({"[]", "[1]"}, joined(joined({"[1"}, comma), {"1]"}));
  Texts all = joined({"{", " {"}, entry("do", {"\"go\"", "\"stop\"", "\"é你\""}));
  all = plus(all, joined(joined(all, comma), entry("n", numbers)));
  all = joined(joined(all, comma), entry("ok", {"true", "false", "null"}));
  all = plus(all, joined(joined(all, comma), entry("l", list)));
  all = joined(all, {"}"});
  std::sort(all.begin(), all.end());
  const auto completable = [&](const std::string& text) {
    const auto at = std::lower_bound(all.begin(), all.end(), text);
    return at != all.end() && at->compare(0, text.size(), text) == 0;
  };
  std::mt19937 random(2);
  std::set<std::string> seen;
  for (int walk = 0; walk < 400; ++walk) {
    Constraint::State state = constraint.start();
    std::string text;
    while (true) {
      std::vector<int32_t> next;
      const bool fresh = seen.insert(text).second;
      for (int32_t id = 0; id < tokenizer.n_pieces(); ++id) {
        const bool allowed = allows(constraint, state, id);
        if (allowed) next.push_back(id);
        if (!fresh) continue;
        const bool ends = tokenizer.ends_generation(id);
        const bool control = tokenizer.piece(id).type == PieceType::kControl;
        const bool wanted = ends ? std::binary_search(all.begin(), all.end(), text)
                                 : !control && completable(text + std::string(tokenizer.bytes(id)));
        ASSERT_EQ(allowed, wanted) << text << " + " << tokenizer.bytes(id);
      }
      ASSERT_FALSE(next.empty()) << text;
      const int32_t id = next[random() % next.size()];
      ASSERT_TRUE(constraint.advance(state, id));
      if (state.ended) break;
      text += tokenizer.bytes(id);
    }
    EXPECT_TRUE(std::binary_search(all.begin(), all.end(), text)) << text;
    EXPECT_TRUE(constraint.complete(state));
    for (int32_t id = 0; id < tokenizer.n_pieces(); ++id)
      ASSERT_FALSE(allows(constraint, state, id));
  }
  EXPECT_GT(seen.size(), 300u);
}

// Says whether a value follows a schema, for the keywords that the tests use.
bool follows(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_bool()) return schema.boolean();
  if (const Json* ref = schema.find("$ref"))
    return follows(value, *root.find("$defs")->find(ref->text().substr(8)), root);
  if (const Json* any = schema.find("anyOf"))
    return std::any_of(any->items().begin(), any->items().end(),
                       [&](const Json& one) { return follows(value, one, root); });
  if (const Json* list = schema.find("enum"))
    return std::any_of(list->items().begin(), list->items().end(), [&](const Json& one) {
      return one.kind() == value.kind() && one.text() == value.text() &&
             one.boolean() == value.boolean();
    });
  const Json* type = schema.find("type");
  if (type == nullptr) return true;
  const auto number = [&](const char* key, double absent) {
    const Json* given = schema.find(key);
    return given == nullptr ? absent : given->number();
  };
  const auto is = [&](const std::string& name) {
    if (name == "null") return value.is_null();
    if (name == "boolean") return value.is_bool();
    if (name == "integer")
      return value.is_number() && value.is_integer() &&
             value.number() >= number("minimum", -1e18) &&
             value.number() <= number("maximum", 1e18);
    if (name == "number") return value.is_number();
    if (name == "string") {
      const auto n =
          static_cast<double>(std::count_if(value.text().begin(), value.text().end(), [](char c) {
            return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
          }));
      return value.is_string() && n >= number("minLength", 0) && n <= number("maxLength", 1e9);
    }
    if (name == "array") {
      if (!value.is_array()) return false;
      const auto n = static_cast<double>(value.items().size());
      const Json* items = schema.find("items");
      return n >= number("minItems", 0) && n <= number("maxItems", 1e9) &&
             (items == nullptr ||
              std::all_of(value.items().begin(), value.items().end(),
                          [&](const Json& one) { return follows(one, *items, root); }));
    }
    if (!value.is_object()) return false;
    const Json* properties = schema.find("properties");
    if (properties == nullptr) return true;
    for (const Json::Member& member : value.members())
      if (properties->find(member.name) == nullptr ||
          !follows(member.value, *properties->find(member.name), root))
        return false;
    const Json* required = schema.find("required");
    return required == nullptr ||
           std::all_of(required->items().begin(), required->items().end(),
                       [&](const Json& one) { return value.find(one.text()) != nullptr; });
  };
  if (type->is_string()) return is(type->text());
  return std::any_of(type->items().begin(), type->items().end(),
                     [&](const Json& one) { return is(one.text()); });
}

const char* const kSchemas[] = {
    R"({"type":"string","minLength":1,"maxLength":6})",
    R"({"type":"number"})",
    R"({"type":"integer","minimum":-250,"maximum":1034})",
    R"({"type":"array","items":{"type":"string","maxLength":3},"minItems":1,"maxItems":3})",
    R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"null"},"c":{"type":"integer"}}})",
    R"({"type":"object","title":"Plan","description":"x","properties":{"steps":{"type":"array","maxItems":3,"items":
        {"anyOf":[{"$ref":"#/$defs/Move"},{"$ref":"#/$defs/Grip"}]}},"note":{"type":["string","null"],"maxLength":9}},
        "required":["steps"],"additionalProperties":false,"$defs":{
        "Move":{"type":"object","properties":{"move":{"enum":["left","right","up"]},"mm":{"type":"integer","minimum":0,
          "maximum":300}},"required":["move","mm"]},
        "Grip":{"type":"object","properties":{"grip":{"type":"number"}},"required":["grip"]}}})",
    R"({"type":["object","array"],"properties":{"x":true},"items":{"type":"object","properties":{"y":{}}}})",
    R"({})",
    R"(true)",
    R"({"enum":["é\n\"\\","\u0001",null,true,12]})"};

TEST(Constraint, every_finished_walk_is_strict_json_that_follows_the_schema) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  std::mt19937 random(6);
  for (const char* source : kSchemas) {
    const Json schema = json(source);
    const Constraint constraint = compiled(source, tokenizer);
    size_t n_finished = 0;
    for (int walk = 0; walk < 300; ++walk) {
      Constraint::State state = constraint.start();
      std::string text;
      for (int step = 0; step < 400 && !state.ended; ++step) {
        std::vector<int32_t> next;
        for (int32_t id = 0; id < tokenizer.n_pieces(); ++id)
          if (allows(constraint, state, id)) next.push_back(id);
        ASSERT_FALSE(next.empty()) << source << text;
        // Towards an end: it is taken when it may be, quotes and brackets are liked.
        int32_t id = next[random() % next.size()];
        for (const int32_t other : next)
          if (tokenizer.ends_generation(other) ||
              (step > 20 &&
               std::string_view("\"]}").find(tokenizer.bytes(other)[0]) != std::string_view::npos))
            id = random() % 3 == 0 ? other : id;
        const std::string part(tokenizer.bytes(id));
        ASSERT_TRUE(constraint.advance(state, id));
        if (!state.ended) text += part;
      }
      if (!state.ended) continue;
      ++n_finished;
      // A free mapping may write a key twice, which the strict reader refuses and JSON allows.
      const auto value = Json::parse(text);
      if (!value && std::string(value.error().message()).find("a second time") != std::string::npos) continue;
      ASSERT_TRUE(value) << source << "\n" << text << value.error().message();
      ASSERT_TRUE(follows(value.value(), schema, schema)) << source << "\n" << text;
    }
    EXPECT_GT(n_finished, 30u) << source;
  }
}

TEST(Constraint, takes_good_documents_and_refuses_bad_ones_at_the_first_wrong_byte) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  const Constraint plan = compiled(kSchemas[5], tokenizer);
  for (const char* text :
       {R"({"steps":[]})",
        R"( {"steps": [{"move": "left", "mm": 300}, {"grip":0.5}], "note": null})",
        R"({"steps":[{"grip":-1e-9}],"note":"\u00e9\ud83e\udd16é🤖"})"})
    EXPECT_TRUE(accepts(plan, tokenizer, text)) << text;
  for (const char* text :
       {R"({})", R"({"note":null})", R"({"steps":[{"mm":1,"move":"up"}]})",
        R"({"steps":[{"move":"up","mm":301}]})", R"({"steps":[],"note":"0123456789"})",
        R"({"steps":[],"x":1})", R"({"steps":[],})", R"({"steps":[]} )",
        R"({"steps":[{"grip":01}]})", R"({"steps":[],"note":"\ud800"})",
        "{\"steps\":[],\"note\":\"\n\"}", "{\"steps\":[],\"note\":\"\xC0\x80\"}",
        "{\"steps\":[],\"note\":\"\xED\xA0\x80\"}", R"({"steps":[],"note":"\x"})"})
    EXPECT_FALSE(accepts(plan, tokenizer, text)) << text;
}

TEST(Constraint, integers_between_any_two_bounds_are_exactly_those) {
  std::mt19937_64 random(9);
  const auto check = [&](int64_t low, int64_t high, const std::vector<int64_t>& probes) {
    ByteNfa nfa(1 << 20);
    const auto dfa = ByteDfa::build(nfa, integer_between(nfa, low, high), 1 << 16);
    ASSERT_TRUE(dfa) << dfa.error().message();
    const auto takes = [&](const std::string& text) {
      uint32_t state = dfa.value().start();
      for (const char c : text) {
        state = dfa.value().step(state, static_cast<uint8_t>(c));
        if (state == ByteDfa::kDead) return false;
      }
      return dfa.value().accepts(state);
    };
    for (const int64_t probe : probes)
      ASSERT_EQ(takes(std::to_string(probe)), probe >= low && probe <= high)
          << low << " " << high << " " << probe;
    for (const char* text : {"", "-", "-0", "00", "01", "+1", "1.0", "--1", "0x1"})
      ASSERT_FALSE(takes(text)) << text;
  };
  std::vector<int64_t> near;
  for (int64_t i = -1200; i <= 1200; ++i) near.push_back(i);
  for (const auto& [low, high] : {std::pair{0, 0},
                                  {0, 9},
                                  {1, 10},
                                  {-1, 1},
                                  {9, 10},
                                  {99, 100},
                                  {-100, -99},
                                  {-9, 1000},
                                  {10, 99},
                                  {-1000, -10},
                                  {7, 7},
                                  {-7, -7},
                                  {101, 999},
                                  {-1199, 1199},
                                  {0, 100}})
    check(low, high, near);
  for (int round = 0; round < 100; ++round) {
    int64_t low = static_cast<int64_t>(random() % 2400) - 1200,
            high = static_cast<int64_t>(random() % 2400) - 1200;
    if (low > high) std::swap(low, high);
    check(low, high, near);
  }
  for (int round = 0; round < 200; ++round) {
    const auto any = [&] {
      const int64_t value =
          static_cast<int64_t>(random() % (kMaxInteger + 1ull)) >> (random() % 60);
      return random() % 2 == 0 ? value : -value;
    };
    int64_t low = any(), high = any();
    if (low > high) std::swap(low, high);
    check(low, high,
          {low, high, std::max(low - 1, -kMaxInteger), std::min(high + 1, kMaxInteger), any(),
           any(), 0});
  }
}

TEST(Constraint, what_the_vocabulary_cannot_finish_it_does_not_begin) {
  // Pieces for "a" and "b" and the quotes, none for the digits: of the three, only "ab" can end.
  const LanguageTokenizer tokenizer = from_json_text(
      R"({"added_tokens":[{"id":4,"content":"<eos>","special":true}],)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":)"
      R"({"\"":0,"a":1,"b":2,"a1":3},"merges":[]}})");
  const Constraint constraint = compiled(R"({"enum":["ab","a12","b7"]})", tokenizer);
  Constraint::State state = constraint.start();
  for (const int32_t id : {0, 1, 2, 0, 4}) {
    for (int32_t other = 0; other < 5; ++other)
      EXPECT_EQ(allows(constraint, state, other), other == id);
    ASSERT_TRUE(constraint.advance(state, id));
  }
  EXPECT_TRUE(state.ended);
  const auto none = Constraint::compile(json(R"({"enum":["7"]})"), tokenizer);
  EXPECT_EQ(none.code(), Code::kNotFound);
}

TEST(Constraint, refuses_keywords_it_does_not_do_naming_them_and_their_place) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  const std::pair<const char*, const char*> cases[] = {
      {R"({"type":"string","pattern":"a+"})", "pattern"},
      {R"({"type":"object","properties":{"x":{"type":"array","uniqueItems":true}}})",
       "#/properties/x"},
      {R"({"oneOf":[{"type":"null"}]})", "oneOf"},
      {R"({"not":{}})", "not"},
      {R"({"type":"number","minimum":0})", "minimum"},
      {R"({"allOf":[{},{}]})", "allOf"},
      {R"({"anyOf":[{}],"type":"null"})", "beside"},
      {R"({"type":"integer","multipleOf":2})", "multipleOf"},
      {R"({"type":"object","patternProperties":{}})", "patternProperties"},
      {R"({"$ref":"other.json"})", "$ref"},
      {R"({"type":"object","properties":{"a":true},"additionalProperties":{"type":"null"}})",
       "additionalProperties"},
      {R"({"type":"array","prefixItems":[{}]})", "prefixItems"},
  };
  for (const auto& [schema, what] : cases) {
    const auto made = Constraint::compile(json(schema), tokenizer);
    ASSERT_FALSE(made) << schema;
    EXPECT_EQ(made.code(), Code::kUnsupported) << schema << made.error().message();
    EXPECT_NE(std::string(made.error().message()).find(what), std::string::npos)
        << made.error().message();
  }
}

TEST(Constraint, refuses_schemas_that_nothing_follows_or_that_are_none) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  for (const char* schema :
       {R"(false)", R"(7)", R"({"type":"strange"})", R"({"type":[]})", R"({"enum":[]})",
        R"({"type":"integer","enum":["a"]})", R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4})",
        R"({"type":"string","minLength":3,"maxLength":2})", R"({"type":"object","required":["a"]})",
        R"({"type":"object","properties":{"a":{}},"required":["b"]})", R"({"$ref":"#/$defs/none"})",
        R"({"minLength":2})", R"({"$ref":"#"})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}}})",
        R"({"type":"string","maxLength":-1})", R"({"type":"string","maxLength":99999})",
        R"({"type":"integer","minimum":1e30})"}) {
    const auto made = Constraint::compile(json(schema), tokenizer);
    ASSERT_FALSE(made) << schema;
    EXPECT_EQ(made.code(), Code::kInvalid) << schema << made.error().message();
  }
  const Constraint::Limits few{.max_states = 50};
  EXPECT_NE(std::string(Constraint::compile(json(kSchemas[5]), tokenizer, few).error().message())
                .find("max_states"),
            std::string::npos);
  const Constraint::Limits small{.max_mask_bytes = 100};
  EXPECT_NE(std::string(Constraint::compile(json(kSchemas[5]), tokenizer, small).error().message())
                .find("max_mask"),
            std::string::npos);
}

TEST(Constraint, ids_that_are_not_allowed_change_nothing) {
  const LanguageTokenizer tokenizer = planner_tokenizer();
  const Constraint constraint = compiled(R"({"type":"boolean"})", tokenizer);
  Constraint::State state = constraint.start();
  for (const int32_t id :
       {-1, tokenizer.n_pieces(), INT32_MAX, INT32_MIN, tokenizer.find("<|end|>"), int32_t{'x'}}) {
    EXPECT_FALSE(constraint.advance(state, id));
    EXPECT_EQ(state.at, constraint.start().at);
  }
  EXPECT_FALSE(constraint.complete(state));
  ASSERT_TRUE(constraint.advance(state, tokenizer.find("true")));
  EXPECT_TRUE(constraint.complete(state));
  ASSERT_TRUE(constraint.advance(state, tokenizer.find("<|end|>")));
  EXPECT_TRUE(state.ended);
  EXPECT_FALSE(constraint.advance(state, tokenizer.find("<|end|>")));
}

TEST(Constraint, takes_no_heap_for_an_id) {
  if (!can_count_allocations()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const LanguageTokenizer tokenizer = planner_tokenizer();
  const Constraint constraint = compiled(kSchemas[5], tokenizer);
  auto sampler =
      Sampler::make({.temperature = 1, .seed = 3}, static_cast<size_t>(tokenizer.n_pieces()));
  ASSERT_TRUE(sampler);
  const std::vector<float> logits(static_cast<size_t>(tokenizer.n_pieces()), 0.0f);
  Constraint::State state = constraint.start();
  const size_t before = n_heap_calls();
  for (int i = 0; i < 200 && !state.ended; ++i)
    constraint.advance(state, sampler.value().sample(logits, constraint.allowed(state)).id);
  EXPECT_EQ(n_heap_calls() - before, 0u);
}

TEST(RealVocabularyConstraint, a_plan_is_valid_whatever_the_model_likes) {
  const auto folder = vocabulary_dir("qwen3");
  if (folder.empty()) GTEST_SKIP() << "no vocabularies: run tests/text/vocabularies.sh";
  const LanguageTokenizer tokenizer = from_json_text(read_file(folder / "tokenizer.json"),
                                                     read_file(folder / "tokenizer_config.json"));
  const Json schema = json(kSchemas[5]);
  const auto seconds = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  };
  const double start = seconds();
  const Constraint constraint = compiled(kSchemas[5], tokenizer);
  std::printf("%d pieces: %zu states, %zu bytes of masks, compiled in %.0f ms\n",
              tokenizer.n_pieces(), constraint.n_states(), constraint.mask_bytes(),
              1e3 * (seconds() - start));
  auto sampler =
      Sampler::make({.temperature = 1, .seed = 5}, static_cast<size_t>(tokenizer.n_pieces()));
  ASSERT_TRUE(sampler);
  std::vector<float> logits(static_cast<size_t>(tokenizer.n_pieces()));
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(i * 2654435761u % 1000) * 0.01f;
  // What ends something is liked, so that the walks end.
  for (const char* text : {"\"", "}", "]", "\"}", "]}", "}}"})
    if (const int32_t id = tokenizer.find(text); id >= 0) logits[static_cast<size_t>(id)] = 20;
  size_t n_finished = 0;
  for (int walk = 0; walk < 20; ++walk) {
    Constraint::State state = constraint.start();
    std::string text;
    for (int i = 0; i < 300 && !state.ended; ++i) {
      const int32_t id = sampler.value().sample(logits, constraint.allowed(state)).id;
      ASSERT_TRUE(constraint.advance(state, id));
      if (!state.ended) text += tokenizer.bytes(id);
    }
    if (!state.ended) continue;
    ++n_finished;
    const auto value = Json::parse(text);
    ASSERT_TRUE(value) << text << value.error().message();
    ASSERT_TRUE(follows(value.value(), schema, schema)) << text;
  }
  EXPECT_GT(n_finished, 3u);
}

}  // namespace
}  // namespace outrider::text_test
