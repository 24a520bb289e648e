// Picture ports: what a view must satisfy, and that every pixel format means the same picture.
// ABI text 12.
#include <cstring>
#include <functional>

#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

struct ImagePort {
  uint32_t index = 0;
  Payload good;
};

// The first colour picture port that is staged in a tick.
std::optional<ImagePort> image_port(Bench& b, Verdict& v) {
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (p.modality != FRT_MODALITY_IMAGE || !b.wants(p) || b.options().inputs.contains(p.name))
      continue;
    auto made = b.payload(p);
    if (made && made->views[0].pixel_format == FRT_PIXEL_RGB8)
      return ImagePort{i, std::move(*made)};
  }
  v.skip("no colour picture input");
  return std::nullopt;
}

void bad_views(Bench& b, Verdict& v) {
  auto port = image_port(b, v);
  if (!port) return;
  using View = frt_image_view;
  struct Row {
    const char* what;
    std::function<void(View&)> damage;
  };
  const Row rows[] = {
      {"struct_size 47", [](View& w) { w.struct_size = 47; }},
      {"struct_size 0", [](View& w) { w.struct_size = 0; }},
      {"data NULL", [](View& w) { w.data = nullptr; }},
      {"width 0", [](View& w) { w.width = 0; }},
      {"width -1", [](View& w) { w.width = -1; }},
      {"height 0", [](View& w) { w.height = 0; }},
      {"height -2147483648", [](View& w) { w.height = INT32_MIN; }},
      {"pixel format 5", [](View& w) { w.pixel_format = 5; }},
      {"stride -1", [](View& w) { w.stride_bytes = -1; }},
      {"stride one below a row", [](View& w) { w.stride_bytes = w.width * 3 - 1; }},
      {"one byte less than a picture", [](View& w) { w.bytes -= 1; }},
      {"0 bytes", [](View& w) { w.bytes = 0; }},
      {"a stride that needs more bytes", [](View& w) { w.stride_bytes = w.width * 3 + 1; }},
      {"sizes whose product overflows",
       [](View& w) { w.width = w.height = w.stride_bytes = INT32_MAX; }},
  };
  for (size_t last = port->good.views.size(), i = 0; i < std::size(rows); ++i) {
    auto views = port->good.views;
    rows[i].damage(views[last - 1]);  // the last one: the whole call is refused, not a part of it
    const int code = b.main->set(port->index, views.data(), views.size() * sizeof(View));
    if (code >= 0) v.fail("a view with %s answered %d", rows[i].what, code);
  }
}

void fixed_size_is_demanded(Bench& b, Verdict& v) {
  auto port = image_port(b, v);
  if (!port) return;
  const auto& p = b.main->ports()[port->index];
  const auto& views = port->good.views;
  bool any = false;
  if (p.rank == 4 && p.shape[0] > 0) {
    any = true;
    auto more = views;
    more.push_back(views[0]);
    if (b.main->set(port->index, more.data(), more.size() * sizeof(views[0])) >= 0)
      v.fail("one view too many was accepted");
    if (b.main->set(port->index, views.data(), (views.size() - 1) * sizeof(views[0])) >= 0)
      v.fail("one view too few was accepted");
  }
  const bool planar = p.layout == FRT_LAYOUT_CHW || p.layout == FRT_LAYOUT_NCHW;
  const int64_t* last = p.shape + p.rank - 3;
  if (last[planar ? 1 : 0] > 1 && last[planar ? 2 : 1] > 1) {
    any = true;
    for (int which = 0; which < 2; ++which) {
      auto smaller = views;
      (which ? smaller[0].width : smaller[0].height) -= 1;
      if (b.main->set(port->index, smaller.data(), smaller.size() * sizeof(views[0])) >= 0)
        v.fail("a view one pixel smaller than the port's fixed %s was accepted",
               which ? "width" : "height");
    }
  }
  if (!any) v.skip("the port leaves number and size open");
}

struct Format {
  const char* name;
  uint32_t pixel;
  uint32_t channels;
  int order[3];      // where R, G and B go
  uint32_t padding;  // extra bytes in every row
};

// The same picture in another format; padding and alpha are filled with junk.
Payload converted(const Payload& rgb, const Format& f) {
  Payload made;
  for (const auto& view : rgb.views) {
    const size_t width = static_cast<uint32_t>(view.width);
    const size_t height = static_cast<uint32_t>(view.height);
    const size_t row = width * static_cast<size_t>(f.channels) + static_cast<size_t>(f.padding);
    // The last row is short: it has no padding.
    std::vector<std::byte> pixels(row * height - static_cast<size_t>(f.padding), std::byte{0x5B});
    const auto* from = static_cast<const std::byte*>(view.data);
    for (size_t y = 0; y < height; ++y)
      for (size_t x = 0; x < width; ++x)
        for (size_t c = 0; c < 3; ++c)
          pixels[y * row + x * static_cast<size_t>(f.channels) + static_cast<size_t>(f.order[c])] =
              from[(y * width + x) * 3 + c];
    made.pixels.push_back(std::move(pixels));
    auto other = view;
    other.pixel_format = f.pixel;
    other.data = made.pixels.back().data();
    other.bytes = made.pixels.back().size();
    other.stride_bytes = f.padding > 0 ? static_cast<int32_t>(row) : 0;
    made.views.push_back(other);
  }
  return made;
}

void formats_agree(Bench& b, Verdict& v) {
  auto port = image_port(b, v);
  if (!port) return;
  if (b.may_vary()) return v.skip("this configuration may answer differently from tick to tick");
  if (!b.run_tick(*b.main, v)) return;
  const auto want = b.main->read_all();
  constexpr Format kFormats[] = {{"RGB with padded rows", FRT_PIXEL_RGB8, 3, {0, 1, 2}, 5},
                                 {"BGR", FRT_PIXEL_BGR8, 3, {2, 1, 0}, 0},
                                 {"RGBA", FRT_PIXEL_RGBA8, 4, {0, 1, 2}, 0},
                                 {"BGRA with padded rows", FRT_PIXEL_BGRA8, 4, {2, 1, 0}, 4}};
  for (const Format& f : kFormats) {
    const Payload made = converted(port->good, f);
    if (const int code = b.main->set(port->index, made); code != 0) {
      v.fail("%s was refused with %d: %s", f.name, code, b.main->error().c_str());
      continue;
    }
    if (b.main->tick() != 0) return v.fail("a tick failed: %s", b.main->error().c_str());
    if (b.main->read_all() != want) v.fail("the same picture as %s gives other outputs", f.name);
  }
}

constexpr Check kChecks[] = {
    {"images: a broken view refuses the whole call", Check::kSound, bad_views},
    {"images: number and fixed size of views are demanded", Check::kSound, fixed_size_is_demanded},
    {"images: every pixel format means the same picture", Check::kSound, formats_agree},
};

}  // namespace

std::span<const Check> image_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
