// The mllm face: ports, plans, stale rules, pictures of every kind, limits, files that do not
// belong together.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "host/conform.h"
#include "providers/mllm_fixture.h"
#include "support/gguf_edit.h"
#include "support/shared_data.h"

namespace outrider::test {
namespace {

using P = MllmProvider;
constexpr VlmKind kKinds[] = {VlmKind::kGemma3, VlmKind::kQwen25Vl, VlmKind::kIdefics3};

int open_code(const std::string& json) {
  const LlmProvider provider(json);
  EXPECT_EQ(provider.ok(), provider.open_code() == 0);
  return provider.open_code();
}
std::string replaced(std::string json, const std::string& from, const std::string& to) {
  const size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}
void expect_nothing_ready(const MllmProvider& p, const char* when) {
  for (const uint32_t port : {P::kText, P::kNextToken, P::kLogits, P::kIsEog})
    EXPECT_EQ(p.read(port), FRT_ERR_NOT_READY) << "port " << port << " " << when;
}

TEST(MllmConform, both_plans_of_every_pair_pass_the_contract_suite) {
  host::ConformOptions options;
  options.strict = true;
  const std::pair<VlmKind, const char*> runs[] = {
      {VlmKind::kGemma3, R"("plan":"infer")"},
      {VlmKind::kQwen25Vl, R"("plan":"staged")"},
      {VlmKind::kIdefics3, R"("plan":"staged","tokens_port":"off")"}};
  for (const auto& [kind, plan] : runs) {
    MllmSpec spec = tiny_mllm(kind, plan);
    spec.n_ctx = 96;
    spec.max_tokens = 4;
    const auto report = host::conform(llm_provider_path(), config_json(spec), options);
    EXPECT_GT(report.passed, 45);
    EXPECT_EQ(report.failed, 0) << vlm_kind_name(kind) << " " << plan << "\n"
                                << host::to_text(report);
  }
}

TEST(MllmFace, ports_and_plan_are_those_of_the_family) {
  const P staged(tiny_mllm(VlmKind::kGemma3)),
      whole(tiny_mllm(VlmKind::kGemma3, R"("plan":"infer")")),
      more(tiny_mllm(VlmKind::kGemma3, R"("tokens_port":"on")"));
  const char* names[] = {"images", "prompt", "text", "next_token", "logits", "is_eog", "tokens"};
  ASSERT_EQ(staged->n_ports, 6u);
  ASSERT_EQ(whole->n_ports, 3u);
  ASSERT_EQ(more->n_ports, 7u);
  for (size_t i = 0; i < 7; ++i) EXPECT_STREQ(more->ports[i].name, names[i]);
  const auto& images = staged->ports[0];
  EXPECT_EQ(images.modality, uint32_t(FRT_MODALITY_IMAGE));
  EXPECT_EQ(images.layout, uint32_t(FRT_LAYOUT_NHWC));
  EXPECT_EQ(images.required, 1u);
  ASSERT_EQ(images.rank, 4u);
  for (const auto& [i, size] : {std::pair{0, -1}, {1, -1}, {2, -1}, {3, 3}})
    EXPECT_EQ(images.shape[i], size);
  for (const P* p : {&staged, &whole}) {
    ASSERT_EQ(p->images({Picture::make(56, 56)}), 0) << p->error();
    ASSERT_EQ(p->prompt("pick up the cup"), 0);
    ASSERT_EQ(p->step(), 0) << p->error();
  }
  EXPECT_EQ(whole.text(), staged.text());
  EXPECT_FALSE(staged.text().empty());
}

TEST(MllmFace, both_required_inputs_must_be_staged_and_no_picture_must_be_said) {
  const P p(tiny_mllm(VlmKind::kGemma3));
  EXPECT_EQ(p.prefill(), FRT_ERR_INVALID);
  ASSERT_EQ(p.prompt("pick up the cup"), 0);
  EXPECT_EQ(p.prefill(), FRT_ERR_INVALID);
  EXPECT_NE(p.error().find("port images is not staged"), std::string::npos) << p.error();
  ASSERT_EQ(p.set(P::kImages, nullptr, 0), 0);
  EXPECT_EQ(p.prefill(), 0) << p.error();
  const auto without = p.logits();
  ASSERT_EQ(p.images({Picture::make(40, 30)}), 0);
  ASSERT_EQ(p.prefill(), 0);
  EXPECT_NE(p.logits(), without);
  LlmSpec text;
  text.model = tiny_pair(VlmKind::kGemma3).text;
  text.n_ctx = 256;
  const LlmProvider alone(text);
  ASSERT_EQ(alone.prompt("pick up the cup"), 0);
  ASSERT_EQ(alone.prefill(), 0);
  EXPECT_EQ(alone.logits(), without) << "words alone are what the text model makes of them";
}

TEST(MllmFace, a_new_input_ends_the_session_and_a_refused_one_is_gone) {
  const P p(tiny_mllm(VlmKind::kQwen25Vl));
  const auto good = [&] {
    ASSERT_EQ(p.images({Picture::make(60, 50)}), 0) << p.error();
    ASSERT_EQ(p.prompt("open the drawer"), 0);
    ASSERT_EQ(p.prefill(), 0) << p.error();
    ASSERT_EQ(p.decode(), 0);
  };
  good();
  ASSERT_EQ(p.images({Picture::make(60, 50, 2)}), 0);
  expect_nothing_ready(p, "after new pictures");
  EXPECT_LT(p.decode(), 0);
  ASSERT_EQ(p.prefill(), 0) << "the prompt stays: " << p.error();
  good();
  EXPECT_EQ(p.set(P::kImages, "abc", 3), FRT_ERR_INVALID);
  expect_nothing_ready(p, "after refused pictures");
  EXPECT_EQ(p.prefill(), FRT_ERR_INVALID) << "the old pictures are gone";
  good();
  EXPECT_EQ(p.prompt(""), FRT_ERR_INVALID);
  EXPECT_EQ(p.prefill(), FRT_ERR_INVALID) << "the old prompt is gone";
  ASSERT_EQ(p.prompt("open the drawer"), 0);
  EXPECT_EQ(p.prefill(), 0) << "the pictures stay";
  EXPECT_EQ(p.set(9, "x", 1), FRT_ERR_INVALID);
  EXPECT_EQ(p.decode(), 0) << "a port that is none changes nothing: " << p.error();
}

TEST(MllmFace, a_broken_view_refuses_the_whole_call_in_words) {
  const P p(tiny_mllm(VlmKind::kGemma3));
  const Picture a = Picture::make(20, 10), b = Picture::make(20, 10, 2);
  const auto refused = [&](auto damage, int code, const char* word) {
    frt_image_view views[2] = {a.view(), b.view()};
    damage(views[1]);
    EXPECT_EQ(p.set(P::kImages, views, sizeof views), code) << word;
    EXPECT_NE(p.error().find("images[1]"), std::string::npos) << p.error();
    EXPECT_NE(p.error().find(word), std::string::npos) << p.error();
  };
  refused([](frt_image_view& v) { v.struct_size = 47; }, FRT_ERR_INVALID, "struct_size");
  refused([](frt_image_view& v) { v.data = nullptr; }, FRT_ERR_INVALID, "null");
  refused([](frt_image_view& v) { v.width = 0; }, FRT_ERR_INVALID, "width");
  refused([](frt_image_view& v) { v.height = -3; }, FRT_ERR_INVALID, "height");
  refused([](frt_image_view& v) { v.bytes = 599; }, FRT_ERR_INVALID, "599");
  refused([](frt_image_view& v) { v.pixel_format = 5; }, FRT_ERR_INVALID, "5");
  refused([](frt_image_view& v) { v.stride_bytes = 59; }, FRT_ERR_INVALID, "59");
  refused([](frt_image_view& v) { v.height = 9; }, FRT_ERR_SHAPE, "share one size");
  refused([](frt_image_view& v) { v.width = 10; }, FRT_ERR_SHAPE, "share one size");
  EXPECT_EQ(p.counter("refused_inputs"), 9);
}

TEST(MllmFace, sizes_from_one_pixel_to_the_limit_are_read_or_refused_in_words) {
  std::vector<uint8_t> pixels(size_t{65536} * 3 + 3, 90);
  const auto view = [&](int32_t width, int32_t height) {
    frt_image_view v{};
    v.struct_size = sizeof v;
    v.pixel_format = FRT_PIXEL_RGB8;
    v.data = pixels.data();
    v.bytes = uint64_t(width) * uint64_t(height) * 3;
    v.width = width;
    v.height = height;
    return v;
  };
  for (const VlmKind kind : kKinds) {
    MllmSpec spec = tiny_mllm(kind);
    spec.n_ctx = 128;
    const P p(spec);
    ASSERT_EQ(p.prompt("look"), 0);
    int n_read = 0;
    for (const auto& [w, h] : {std::pair{1, 1},
                               {1, 2},
                               {2, 1},
                               {31, 33},
                               {112, 112},
                               {113, 111},
                               {1, 300},
                               {300, 1},
                               {1, 65535},
                               {65535, 1},
                               {65536, 1},
                               {1, 65536}}) {
      const frt_image_view v = view(w, h);
      const int code = p.set(P::kImages, &v, sizeof v);
      const bool fits = w <= 65535 && h <= 65535;
      if (kind != VlmKind::kQwen25Vl) {
        EXPECT_EQ(code, fits ? 0 : FRT_ERR_SHAPE) << w << "x" << h << ": " << p.error();
      }
      if (code != 0) {
        EXPECT_EQ(code, FRT_ERR_SHAPE);
        EXPECT_FALSE(p.error().empty());
        EXPECT_EQ(p.prefill(), FRT_ERR_INVALID);
        continue;
      }
      EXPECT_EQ(p.prefill(), 0) << vlm_kind_name(kind) << " " << w << "x" << h << p.error();
      ++n_read;
    }
    EXPECT_GE(n_read, 6) << vlm_kind_name(kind);
  }
}

TEST(MllmFace, FC27_pictures_and_words_beyond_the_context_are_refused_before_anything_is_computed) {
  int n_with_words = 0;
  for (const VlmKind kind : kKinds) {
    MllmSpec spec = tiny_mllm(kind);
    spec.n_ctx = 40;
    const P p(spec);
    ASSERT_EQ(p.prompt("look"), 0);
    std::vector<Picture> many(30, Picture::make(56, 56));
    EXPECT_EQ(p.images(many), FRT_ERR_SHAPE);
    EXPECT_NE(p.error().find("40"), std::string::npos) << p.error();
    EXPECT_NE(p.error().find("nothing was computed"), std::string::npos);
    // As many as just fit by themselves leave no room for the words.
    int n = 29;
    for (; n > 0; --n) {
      many.resize(size_t(n));
      if (p.images(many) == 0) break;
    }
    if (n == 0) continue;  // one is too large already
    ++n_with_words;
    std::string words;
    for (int i = 0; i < 38; ++i) words += "cup ";
    ASSERT_EQ(p.prompt(words), 0);
    const auto before = p.counter("encoded_frames");
    EXPECT_EQ(p.prefill(), FRT_ERR_SHAPE) << vlm_kind_name(kind);
    EXPECT_EQ(p.step(), FRT_ERR_SHAPE);
    EXPECT_EQ(p.counter("encoded_frames"), before);
    EXPECT_EQ(p.counter("evaluated_tokens"), 0);
    expect_nothing_ready(p, "after a prompt that does not fit");
  }
  EXPECT_EQ(n_with_words, 3) << "the longer half was not tried";
}

TEST(MllmFace, FC09_places_of_pictures_are_as_many_as_pictures) {
  const P p(tiny_mllm(VlmKind::kGemma3, R"("image_sizes":"any","tokens_port":"on")"));
  ASSERT_EQ(p.images({Picture::make(30, 40), Picture::make(50, 20)}), 0) << p.error();
  for (const auto& [bad, says] :
       {std::pair{"one <__media__> place", "1 places <__media__> for 2 pictures"},
        {"<__media__><__media__><__media__>", "3 places <__media__> for 2 pictures"}}) {
    ASSERT_EQ(p.prompt(bad), 0);
    EXPECT_EQ(p.prefill(), FRT_ERR_INVALID) << bad;
    EXPECT_NE(p.error().find(says), std::string::npos) << p.error();
  }
  ASSERT_EQ(p.prompt("first <__media__> then <__media__>, what now"), 0);
  EXPECT_EQ(p.prefill(), 0) << p.error();
  const auto inside = p.logits();
  ASSERT_EQ(p.images({Picture::make(50, 20), Picture::make(30, 40)}), 0) << p.error();
  ASSERT_EQ(p.prefill(), 0) << p.error();
  EXPECT_NE(p.logits(), inside) << "the same two, the other way round";
  ASSERT_EQ(p.images({Picture::make(30, 40), Picture::make(50, 20)}), 0) << p.error();
  ASSERT_EQ(p.prefill(), 0) << p.error();
  EXPECT_EQ(p.logits(), inside);
  ASSERT_EQ(p.prompt("<__media__><__media__>"), 0);
  EXPECT_EQ(p.prefill(), 0) << p.error();
  ASSERT_EQ(p.prompt("first  then , what now"), 0);
  ASSERT_EQ(p.prefill(), 0);
  EXPECT_NE(p.logits(), inside);
  const int32_t ids[] = {2, 400, -1, 401, -1, 402};
  ASSERT_EQ(p.tokens(ids), 0) << p.error();
  EXPECT_EQ(p.prefill(), 0) << p.error();
  const int32_t three[] = {2, -1, -1, -1};
  ASSERT_EQ(p.tokens(three), 0);
  EXPECT_EQ(p.prefill(), FRT_ERR_INVALID);
  const int32_t bad[] = {2, -2};
  EXPECT_EQ(p.tokens(bad), FRT_ERR_INVALID);
  const int32_t beyond[] = {640};
  EXPECT_EQ(p.tokens(beyond), FRT_ERR_INVALID);
}

TEST(MllmFace, a_picture_does_not_depend_on_what_was_shown_before) {
  for (const VlmKind kind : kKinds) {
    const std::vector<Picture> shown = {Picture::make(70, 90, 3)};
    const P fresh(tiny_mllm(kind)), used(tiny_mllm(kind, R"("reuse":"on")"));
    for (const P* p : {&fresh, &used}) ASSERT_EQ(p->prompt("what is this"), 0);
    ASSERT_EQ(used.images({Picture::make(120, 60), Picture::make(120, 60, 2)}), 0) << used.error();
    ASSERT_EQ(used.prefill(), 0) << used.error();
    for (const P* p : {&fresh, &used}) {
      ASSERT_EQ(p->images(shown), 0);
      ASSERT_EQ(p->prefill(), 0) << p->error();
    }
    EXPECT_EQ(used.logits(), fresh.logits()) << vlm_kind_name(kind);
    EXPECT_GT(used.counter("reused_tokens"), 0);
  }
}

TEST(MllmFace, equal_neighbours_become_a_clip_in_the_peers_numerics_alone) {
  const std::vector<Picture> three(3, Picture::make(60, 60)), two(2, Picture::make(60, 60));
  const P plain(tiny_mllm(VlmKind::kQwen25Vl)),
      peer(tiny_mllm(VlmKind::kQwen25Vl, R"("numerics":"jetson-pi")"));
  for (const P* p : {&plain, &peer}) {
    ASSERT_EQ(p->prompt("what is this"), 0);
    ASSERT_EQ(p->images(two), 0);
    ASSERT_EQ(p->prefill(), 0);
  }
  const auto tokens = [](const P& p) { return p.counter("prompt_tokens"); };
  EXPECT_GT(tokens(plain), tokens(peer));
  EXPECT_EQ(plain.counter("fused_pictures"), 0);
  EXPECT_EQ(peer.counter("fused_pictures"), 2);
  ASSERT_EQ(peer.images(three), 0);
  ASSERT_EQ(peer.prefill(), 0);
  EXPECT_EQ(peer.counter("fused_pictures"), 4) << "a pair and a single one";
  ASSERT_EQ(peer.prompt("a <__media__> b <__media__> c <__media__>"), 0);
  ASSERT_EQ(peer.prefill(), 0) << peer.error();
  EXPECT_EQ(peer.counter("fused_pictures"), 4) << "words between them keep them apart";
}

// ---- open ---------------------------------------------------------------------------------------

TEST(MllmOpen, every_key_is_wanted_once_and_of_its_type) {
  const std::string good = config_json(tiny_mllm(VlmKind::kGemma3));
  ASSERT_EQ(open_code(good), 0);
  for (const char* key :
       {"\"model_path\"", "\"mmproj_path\"", "\"backend\"", "\"n_ctx\"", "\"n_threads\"",
        "\"temp\"", "\"top_k\"", "\"top_p\"", "\"seed\"", "\"max_tokens\""})
    EXPECT_EQ(open_code(replaced(good, key, "\"zz\"")), FRT_ERR_INVALID) << key;
  for (const char* bad : {R"("seed":1)", R"("n_views":2)", R"("image_sizes":"all")",
                          R"("tokens_port":1)", R"("mmproj_path":"x")"})
    EXPECT_EQ(open_code(config_json(tiny_mllm(VlmKind::kGemma3, bad))), FRT_ERR_INVALID) << bad;
  for (const char* fine : {R"("precision":"f32")", R"("precision":"bf16")", R"("precision":"int8")",
                           R"("image_sizes":"equal")", R"("tokens_port":"off")"})
    EXPECT_EQ(open_code(config_json(tiny_mllm(VlmKind::kQwen25Vl, fine))), 0) << fine;
  EXPECT_EQ(open_code(replaced(good, "\"cpu\"", "\"cuda\"")), FRT_ERR_UNSUPPORTED);
}

TEST(MllmOpen, files_that_do_not_belong_together_are_refused) {
  for (const VlmKind text : kKinds)
    for (const VlmKind vision : kKinds) {
      MllmSpec spec = tiny_mllm(text);
      spec.mmproj = tiny_pair(vision).vision;
      EXPECT_EQ(open_code(config_json(spec)), text == vision ? 0 : FRT_ERR_UNSUPPORTED);
    }
  const TempDir dir;
  MllmSpec spec = tiny_mllm(VlmKind::kQwen25Vl);
  const std::string whole = spec.mmproj;
  spec.mmproj = dir.file("absent.gguf");
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  spec.mmproj = spec.model;
  EXPECT_LT(open_code(config_json(spec)), 0) << "the text file twice";
  spec.mmproj = dir.file("narrow.gguf");
  edit_gguf(whole, spec.mmproj, {.key = "clip.vision.projection_dim", .value = 64});
  EXPECT_LT(open_code(config_json(spec)), 0) << "a width that mm.2 does not have";
  edit_gguf(whole, spec.mmproj, {.key = "clip.projector_type", .text = "llava"});
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_UNSUPPORTED);
  edit_gguf(whole, spec.mmproj, {.tensor = "v.patch_embd.weight.1"});
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  edit_gguf(whole, spec.mmproj, {.key = "clip.vision.n_wa_pattern", .value = 1});
  EXPECT_EQ(open_code(config_json(spec)), 0) << "every block sees all";
  edit_gguf(whole, spec.mmproj, {.key = "clip.vision.n_wa_pattern", .value = 0});
  EXPECT_EQ(open_code(config_json(spec)), 0);
  spec.mmproj = whole;
  const std::string text = spec.model;
  spec.model = dir.file("text.gguf");
  edit_gguf(text, spec.model, {.key = "qwen2vl.rope.dimension_sections"});
  EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND);
  edit_gguf(text, spec.model, {.key = "general.architecture", .text = "qwen2"});
  EXPECT_LT(open_code(config_json(spec)), 0);
}

TEST(MllmOpen, a_vocabulary_without_the_pieces_around_pictures_is_refused) {
  const TempDir dir;
  const std::string path = dir.file("text.gguf");
  for (const VlmKind kind : kKinds) {
    SyntheticLlm text = synthetic_vlm_text({.kind = kind});
    for (size_t i = 0; i < std::min<size_t>(text.control_pieces.size(), 3); ++i) {
      SyntheticLlm without = text;
      without.control_pieces[i] = "<other>";
      ASSERT_TRUE(write_synthetic_llm(without, path.c_str()));
      MllmSpec spec = tiny_mllm(kind);
      spec.model = path;
      EXPECT_EQ(open_code(config_json(spec)), FRT_ERR_NOT_FOUND)
          << vlm_kind_name(kind) << " without " << text.control_pieces[i];
    }
  }
}

TEST(MllmOpen, a_damaged_vision_file_is_refused_or_runs) {
  const TempDir dir;
  for (const VlmKind kind : kKinds) {
    MllmSpec spec = tiny_mllm(kind);
    spec.n_ctx = 64;
    std::ifstream in(spec.mmproj, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    spec.mmproj = dir.file("damaged.gguf");
    const auto write = [&](const std::string& content) {
      std::ofstream(spec.mmproj, std::ios::binary | std::ios::trunc) << content;
    };
    for (const size_t n :
         {size_t{0}, size_t{3}, size_t{24}, size_t{100}, bytes.size() / 2, bytes.size() - 40}) {
      write(bytes.substr(0, n));
      EXPECT_LT(open_code(config_json(spec)), 0) << n << " bytes";
    }
    int n_refused = 0, n_ran = 0;
    for (size_t i = 0; i < 40; ++i) {
      std::string copy = bytes;
      copy[(i * 2654435761u) % 3000] ^= static_cast<char>(1 << (i % 8));
      write(copy);
      const MllmProvider provider(spec);
      if (!provider.ok()) {
        EXPECT_LT(provider.open_code(), 0);
        ++n_refused;
        continue;
      }
      if (provider.images({Picture::make(20, 20)}) == 0 && provider.prompt("look") == 0)
        n_ran += provider.step() == 0;
    }
    EXPECT_GE(n_refused, 1) << vlm_kind_name(kind);
    EXPECT_GE(n_ran, 1) << vlm_kind_name(kind);
  }
}

TEST(MllmOpen, the_identity_names_both_files_and_what_can_change_a_result) {
  const auto fingerprint = [](const MllmSpec& spec) {
    const MllmProvider provider(spec);
    EXPECT_TRUE(provider.ok());
    return provider.ok() ? provider->exp->fingerprint : 0;
  };
  const MllmSpec base = tiny_mllm(VlmKind::kQwen25Vl);
  const auto wanted = fingerprint(base);
  const MllmProvider provider(base);
  const std::string identity = provider->exp->identity;
  for (const char* pair : {"model_family", "mmproj_path", "weights_sha256", "mmproj_sha256"})
    EXPECT_NE(identity.find(pair), std::string::npos) << pair << " in " << identity;
  const TempDir dir;
  MllmSpec other = base;
  other.mmproj = dir.file("copy.gguf");
  std::filesystem::copy_file(base.mmproj, other.mmproj);
  EXPECT_NE(fingerprint(other), wanted);
  for (const char* extra : {R"("numerics":"jetson-pi")", R"("precision":"bf16")",
                            R"("plan":"infer")", R"("image_sizes":"any")", R"("tokens_port":"on")"})
    EXPECT_NE(fingerprint(tiny_mllm(VlmKind::kQwen25Vl, extra)), wanted) << extra;
  EXPECT_EQ(fingerprint(tiny_mllm(VlmKind::kQwen25Vl, R"("reuse":"on","cache_dir":"")")), wanted);
}

}  // namespace
}  // namespace outrider::test
