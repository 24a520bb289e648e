// The scalar table: the twin of every vector kernel, written to be read. Products and sums are f32
// in the order that kernel_table.h states; norms, activations and softmax use double inside.
#include <math.h>
#include <string.h>

#include "kernels/kernel_table.h"

namespace outrider {
namespace {

float bits_to_f32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t f32_to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint16_t to_bf16(float value) {
  const uint32_t bits = f32_to_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t value) {
  return bits_to_f32(uint32_t{value} << 16);
}

float from_f16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 31) return bits_to_f32(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return bits_to_f32(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;  // 2^-24
  return sign ? -magnitude : magnitude;
}

// Weight k, lane of a panel.
template <int kFormat>
float weight_at(const void* panel, int64_t k, int lane) {
  if (kFormat == kTileF32) return static_cast<const float*>(panel)[k * kPanelLanes + lane];
  const auto* half = static_cast<const uint16_t*>(panel);
  if (kFormat == kTileF16) return from_f16(half[k * kPanelLanes + lane]);
  return from_bf16(half[(k / 2 * kPanelLanes + lane) * 2 + k % 2]);
}

template <int kFormat, int kRows>
void tile_of(const void* a, const void* w, int64_t, int64_t n_k, float* tile, int64_t tile_stride,
             int accumulate, const void*, const void*) {
  const auto* x = static_cast<const float*>(a);
  float sum[kRows][kPanelLanes] = {};
  for (int r = 0; r < kRows && accumulate; ++r)
    memcpy(sum[r], tile + r * tile_stride, sizeof sum[r]);
  for (int64_t k = 0; k < n_k; ++k) {
    for (int lane = 0; lane < kPanelLanes; ++lane) {
      const float weight = weight_at<kFormat>(w, k, lane);
      for (int r = 0; r < kRows; ++r) sum[r][lane] += x[k * kRows + r] * weight;
    }
  }
  for (int r = 0; r < kRows; ++r) memcpy(tile + r * tile_stride, sum[r], sizeof sum[r]);
}

template <int kRows>
void tile_int8(const void* a, const void* w, int64_t, int64_t n_k, float* tile, int64_t tile_stride,
               int accumulate, const void*, const void*) {
  const auto *x = static_cast<const int8_t*>(a), *weights = static_cast<const int8_t*>(w);
  int32_t sum[kRows][kPanelLanes] = {};
  for (int r = 0; r < kRows && accumulate; ++r)
    memcpy(sum[r], tile + r * tile_stride, sizeof sum[r]);
  for (int64_t k = 0; k < n_k; ++k) {
    for (int lane = 0; lane < kPanelLanes; ++lane) {
      const int32_t weight = weights[(k / 4 * kPanelLanes + lane) * 4 + k % 4];
      for (int r = 0; r < kRows; ++r) sum[r][lane] += x[(k / 4 * kRows + r) * 4 + k % 4] * weight;
    }
  }
  for (int r = 0; r < kRows; ++r) memcpy(tile + r * tile_stride, sum[r], sizeof sum[r]);
}

void widen_panel(int32_t format, const void* panel, int64_t n_k, float* out) {
  for (int64_t k = 0; k < n_k; ++k)
    for (int lane = 0; lane < kPanelLanes; ++lane)
      out[k * kPanelLanes + lane] = format == kTileF16 ? weight_at<kTileF16>(panel, k, lane)
                                                       : weight_at<kTileBf16>(panel, k, lane);
}

void widen_int8(const int8_t* q, const float* scale, int32_t per_row, int64_t n_k, float* out) {
  for (int64_t k = 0; k < n_k; ++k)
    for (int lane = 0; lane < kPanelLanes; ++lane)
      out[k * kPanelLanes + lane] =
          static_cast<float>(q[k * kPanelLanes + lane]) * scale[per_row ? k : lane];
}

void pack_f32(const float* const* rows, int32_t n_rows, int64_t n_k, int32_t round, int32_t pad,
              float* out) {
  for (int64_t k = 0; k < n_k; ++k)
    for (int r = 0; r < n_rows; ++r)
      out[k * n_rows + r] = round ? from_bf16(to_bf16(rows[r][k])) : rows[r][k];
  if (pad && n_k % 2 == 1)
    for (int r = 0; r < n_rows; ++r) out[n_k * n_rows + r] = 0;
}

void pack_bf16(const float* const* rows, int32_t n_rows, int64_t n_k, uint16_t* out) {
  for (int64_t k = 0; k < n_k + n_k % 2; ++k)
    for (int r = 0; r < n_rows; ++r)
      out[(k / 2 * n_rows + r) * 2 + k % 2] = k < n_k ? to_bf16(rows[r][k]) : 0;
}

float amax_row(const float* x, int64_t n) {
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!isfinite(x[i])) return NAN;
    largest = fmaxf(largest, fabsf(x[i]));
  }
  return largest;
}

void pack_int8(const float* const* rows, int32_t n_rows, int64_t n_k, const float* inverse,
               int32_t shift, uint8_t* out) {
  for (int64_t k = 0; k < (n_k + 3) / 4 * 4; ++k) {
    for (int r = 0; r < n_rows; ++r) {
      // inverse 0 stands for a row of zeros or one that is not finite
      const float value = k < n_k && inverse[r] != 0 ? rows[r][k] * inverse[r] : 0;
      out[(k / 4 * n_rows + r) * 4 + k % 4] = static_cast<uint8_t>(lrintf(value) + shift);
    }
  }
}

// The first three are x times a logistic function, x / (1 + exp(-z)); tanh(u) = 2 s(2u) - 1.
float activate(float x, int32_t activation) {
  const double v = x;
  switch (activation) {
    case kActGeluTanh:
      return static_cast<float>(
          v / (1 + exp(-2 * 0.79788456080286535588 * (v + 0.044715 * v * v * v))));
    case kActGeluQuick:
      return static_cast<float>(v / (1 + exp(-1.702 * v)));
    case kActSilu:
      return static_cast<float>(v / (1 + exp(-v)));
    case kActRelu:
      return x < 0 ? 0 : x;
    case kActSigmoid:
      return static_cast<float>(1 / (1 + exp(-v)));
    case kActTanh:
      return static_cast<float>(tanh(v));
    case kActElu:
      return x > 0 ? x : static_cast<float>(expm1(v));
    case kActHardSwish: {
      const double share = v / 6 + 0.5;
      return static_cast<float>(v * (share < 0 ? 0 : share > 1 ? 1 : share));
    }
    default:
      return x;
  }
}

float tile_value(const float* tile, int64_t tile_stride, const TileOut* out, int r, int64_t c) {
  const float* at = tile + r * tile_stride + c;
  if (out->row_scale == nullptr) return *at;
  const auto* tail = reinterpret_cast<const Int8PanelTail*>(
      reinterpret_cast<const char*>(out->tail) + c / kPanelLanes * out->tail_bytes);
  int32_t sum;
  memcpy(&sum, at, sizeof sum);
  if (out->shifted) sum -= tail->shift[c % kPanelLanes];
  return static_cast<float>(sum) * tail->scale[c % kPanelLanes] * out->row_scale[r];
}

void tile_out(const float* tile, int64_t tile_stride, const TileOut* out) {
  for (int r = 0; r < out->n_rows; ++r) {
    float* y = out->y + r * out->y_stride;
    for (int c = 0; c < out->n_cols; ++c) {
      float value = tile_value(tile, tile_stride, out, r, c);
      if (out->bias) value += out->bias[c];
      value = activate(value, out->activation);
      if (out->gate) value *= out->gate[c];
      y[c] = out->add ? y[c] + value : value;
    }
  }
}

void gated_tile_out(const float* tile, int64_t tile_stride, const TileOut* out) {
  for (int r = 0; r < out->n_rows; ++r) {
    for (int c = 0; c < out->n_cols; ++c) {
      const int64_t at = c / kPanelLanes * 2 * kPanelLanes + c % kPanelLanes;
      const float gate = tile_value(tile, tile_stride, out, r, at),
                  up = tile_value(tile, tile_stride, out, r, at + kPanelLanes);
      out->y[r * out->y_stride + c] = activate(gate, out->activation) * up;
    }
  }
}

void window_row(const WindowRow* row) {
  for (int32_t r = 0; r < row->n_rows; ++r) {
    const float* x = row->x + r * row->x_next;
    for (int32_t o = 0; o < row->n_outputs; ++o) {
      float* y = row->y + r * row->y_next + o * row->y_stride;
      for (int64_t i = 0; i < row->n; ++i) {
        float sum = 0;
        for (int64_t t = 0; t < row->n_taps; ++t)
          sum = fmaf(row->w[t * row->lanes + o], x[row->tap[t] + i], sum);
        if (row->bias != nullptr) sum += row->bias[o];
        y[i] = row->relu != 0 && sum < 0 ? 0 : sum;
      }
    }
  }
}

// The end of one sum: bias, what is added, activation.
float channel_value(const ChannelWindows* c, float sum, int32_t at_bias, int64_t at) {
  if (c->ends == 0) return sum;
  sum += c->bias[at_bias];
  if (c->add != nullptr) sum += c->add[at];
  return c->relu != 0 && sum < 0 ? 0 : sum;
}

void channel_windows(const ChannelWindows* c) {
  for (int64_t p = 0; p < c->n_places; ++p)
    for (int32_t lane = 0; lane < c->n_blocks * kPanelLanes; ++lane) {
      const int64_t at = lane / kPanelLanes * c->y_block + c->to[p] + lane % kPanelLanes;
      float sum = c->begins != 0 ? 0 : c->y[at];
      for (int64_t outer = 0; outer < c->n_outer; ++outer)
        for (int64_t y = 0; y < c->n_y; ++y)
          for (int64_t x = 0; x < c->n_x; ++x) {
            const float* w = c->w + outer * c->w_outer + y * c->w_y + x * c->w_x + lane;
            const float* from = c->x + c->from[p] + outer * c->x_outer + y * c->x_y + x * c->x_x;
            const int64_t n_run = outer + 1 < c->n_outer ? c->n_run : c->n_last;
            for (int64_t r = 0; r < n_run; ++r)
              sum = fmaf(from[r * c->x_run], w[r * c->n_blocks * kPanelLanes], sum);
          }
      c->y[at] = channel_value(c, sum, lane, at);
    }
}

void own_windows(const ChannelWindows* c) {
  for (int64_t p = 0; p < c->n_places; ++p)
    for (int32_t lane = 0; lane < kPanelLanes; ++lane) {
      float sum = 0;
      for (int64_t y = 0; y < c->n_y; ++y)
        for (int64_t x = 0; x < c->n_x; ++x)
          sum = fmaf(c->x[c->from[p] + y * c->x_y + x * c->x_x + lane],
                     c->w[y * c->w_y + x * c->w_x + lane], sum);
      c->y[c->to[p] + lane] = channel_value(c, sum, lane, c->to[p] + lane);
    }
}

void rms_norm_row(const float* x, const float* scale, const float* shift, float eps, int64_t n,
                  float* y) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += double(x[i]) * x[i];
  const auto inverse = static_cast<float>(1 / sqrt(squares / double(n) + eps));
  for (int64_t i = 0; i < n; ++i) {
    const float value = x[i] * inverse * (1 + scale[i]);
    y[i] = shift ? value + shift[i] : value;
  }
}

void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, int64_t n,
                    float* y) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / double(n);
  for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double inverse = 1 / sqrt(squares / double(n) + eps);
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>((x[i] - mean) * inverse) * weight[i] + bias[i];
}

void rope_head(float* x, int32_t half, const float* cosine, const float* sine) {
  for (int32_t j = 0; j < half; ++j) {
    const float a = x[j], b = x[j + half];
    x[j] = a * cosine[j] - b * sine[j];
    x[j + half] = b * cosine[j] + a * sine[j];
  }
}

void activate_row(float* x, int64_t n, int32_t activation) {
  for (int64_t i = 0; i < n; ++i) x[i] = activate(x[i], activation);
}

void scale_row(const float* x, float factor, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

float softmax_block(float* s, int64_t n, int64_t n_padded, float scale, float* largest,
                    float* sum) {
  const float before = *largest;
  float now = before;
  for (int64_t i = 0; i < n; ++i) {
    const float score = s[i] * scale;
    if (score > now) now = score;  // a NaN shows below, as a power of it
  }
  double weights = 0;
  for (int64_t i = 0; i < n; ++i) {
    s[i] = static_cast<float>(exp2(double(s[i]) * scale - now));
    weights += s[i];
  }
  for (int64_t i = n; i < n_padded; ++i) s[i] = 0;
  const float factor = now == before ? 1.0f : static_cast<float>(exp2(double(before) - now));
  *largest = now;
  *sum = static_cast<float>(double(*sum) * factor + weights);
  return factor;
}

// Twenty sums; the compiler may pair them in the vectors that every processor of the kind has.
void peak_f32(int64_t n_rounds) {
  float sum[20] = {};
  float factor = 0.999f;
  for (int64_t round = 0; round < n_rounds; ++round) {
    asm volatile("" : "+m"(factor));
    const float f = factor;
    for (int i = 0; i < 20; ++i) sum[i] = sum[i] * f + f;
  }
  asm volatile("" : : "m"(sum));
}

float read_all(const float* data, int64_t bytes) {
  float sum[8] = {};
  for (int64_t i = 0; i < bytes / 4; i += 8)
    for (int lane = 0; lane < 8; ++lane) sum[lane] += data[i + lane];
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

}  // namespace

#define OUTRIDER_TILES(format)                                                                   \
  {                                                                                              \
    {tile_of<format, 1>, tile_of<format, 2>, tile_of<format, 3>, tile_of<format, 4>}, {}, {}, {} \
  }

const KernelTable kScalarTable = {
    "scalar",
    {OUTRIDER_TILES(kTileF32),
     OUTRIDER_TILES(kTileF16),
     OUTRIDER_TILES(kTileBf16),
     {},
     {{tile_int8<1>, tile_int8<2>, tile_int8<3>, tile_int8<4>}, {}, {}, {}}},
    4,
    widen_panel,
    widen_int8,
    pack_f32,
    pack_bf16,
    amax_row,
    pack_int8,
    0,
    tile_out,
    gated_tile_out,
    rms_norm_row,
    layer_norm_row,
    rope_head,
    activate_row,
    scale_row,
    window_row,
    channel_windows,
    own_windows,
    softmax_block,
    {peak_f32, 40},
    {nullptr, 0},
    {nullptr, 0},
    read_all,
    &kScalarBlocks,
};

}  // namespace outrider
