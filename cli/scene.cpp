#include "cli/scene.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace outrider::cli {
namespace {

// x to the right, y away from the front camera, z up; metres. The table top is z = 0.
struct Vec {
  double x = 0, y = 0, z = 0;
  Vec operator+(const Vec& o) const { return {x + o.x, y + o.y, z + o.z}; }
  Vec operator-(const Vec& o) const { return {x - o.x, y - o.y, z - o.z}; }
  Vec operator*(double s) const { return {x * s, y * s, z * s}; }
};
double dot(const Vec& a, const Vec& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
Vec cross(const Vec& a, const Vec& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
Vec unit(const Vec& a) {
  return a * (1 / std::sqrt(dot(a, a)));
}

struct Colour {
  double r = 0, g = 0, b = 0;
  Colour operator*(double s) const { return {r * s, g * s, b * s}; }
};
constexpr Colour kTable{196, 160, 118}, kTableEdge{120, 92, 64}, kCube{214, 62, 56},
    kTarget{52, 120, 196}, kMetal{176, 184, 194}, kDark{70, 76, 86}, kShadow{120, 95, 68};

constexpr double kCubeSide = 0.07, kPi = 3.14159265358979323846;

struct Pose {
  Vec cube, tip;
  double cube_turn = 0, opening = 0;  // rad; metres between the fingers
};

// One round every eight seconds; the gripper follows a little behind and dips twice a round.
Pose pose_at(double t) {
  const double a = 2 * kPi * t / 8, lag = a - 0.35;
  Pose p;
  p.cube = {0.20 * std::cos(a), 0.14 * std::sin(a), kCubeSide / 2};
  p.cube_turn = 0.6 * std::sin(a) + 0.3;
  const double dip = 0.5 - 0.5 * std::cos(2 * lag);
  p.tip = {0.20 * std::cos(lag), 0.14 * std::sin(lag), 0.19 - 0.09 * dip};
  p.opening = 0.115 - 0.03 * dip;
  return p;
}

struct View {
  Vec eye, right, up, forward;
  double focal = 1, centre_x = 0, centre_y = 0;
  PixelPoint project(const Vec& point) const {
    const Vec d = point - eye;
    const double depth = std::max(0.02, dot(d, forward));
    return {centre_x + focal * dot(d, right) / depth, centre_y - focal * dot(d, up) / depth};
  }
};

View view_of(Camera camera, const Pose& pose, int width, int height) {
  const bool front = camera == Camera::kFront;
  View v;
  v.eye = front ? Vec{0.05, -0.80, 0.56} : pose.tip + Vec{0, -0.10, 0.26};
  const Vec target = front ? Vec{0, 0.02, 0.06} : pose.tip + Vec{0, 0.03, -0.16};
  v.forward = unit(target - v.eye);
  v.right = unit(cross(v.forward, {0, 0, 1}));
  v.up = cross(v.right, v.forward);
  v.focal = (front ? 1.12 : 0.92) * std::min(width, height);
  v.centre_x = width / 2.0;
  v.centre_y = height / 2.0;
  return v;
}

struct Face {
  std::array<Vec, 4> corner;
  Colour colour;
  double depth = 0;
  double alpha = 1;
};

class Painter {
 public:
  Painter(const View& view, int width, int height) : view_(view), width_(width), height_(height) {
    rgb_.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  }

  void background(const Colour& top, const Colour& bottom) {
    for (int y = 0; y < height_; ++y) {
      const double s = static_cast<double>(y) / height_;
      for (int x = 0; x < width_; ++x)
        put(x, y,
            {top.r + (bottom.r - top.r) * s, top.g + (bottom.g - top.g) * s,
             top.b + (bottom.b - top.b) * s},
            1);
    }
  }

  // A convex quad; coverage of each pixel from 3 x 3 samples.
  void quad(const std::array<Vec, 4>& corner, const Colour& colour, double alpha = 1) {
    std::array<PixelPoint, 4> p;
    double low_x = 1e9, low_y = 1e9, high_x = -1e9, high_y = -1e9, area = 0;
    for (size_t i = 0; i < 4; ++i) {
      p[i] = view_.project(corner[i]);
      low_x = std::min(low_x, p[i].x), high_x = std::max(high_x, p[i].x);
      low_y = std::min(low_y, p[i].y), high_y = std::max(high_y, p[i].y);
    }
    for (size_t i = 0; i < 4; ++i) area += p[i].x * p[(i + 1) % 4].y - p[(i + 1) % 4].x * p[i].y;
    const double side = area >= 0 ? 1 : -1;
    // Edge i as a x + b y + c: the distance in pixels to its inside.
    std::array<std::array<double, 3>, 4> edge;
    for (size_t i = 0; i < 4; ++i) {
      const PixelPoint &from = p[i], &to = p[(i + 1) % 4];
      const double ex = to.x - from.x, ey = to.y - from.y,
                   scale = side / std::max(1e-9, std::hypot(ex, ey));
      edge[i] = {-ey * scale, ex * scale, (ey * from.x - ex * from.y) * scale};
    }
    auto inside = [&](double x, double y) {
      double least = 1e9;
      for (const auto& e : edge) least = std::min(least, e[0] * x + e[1] * y + e[2]);
      return least;
    };
    const int x0 = std::clamp(static_cast<int>(low_x), 0, width_),
              x1 = std::clamp(static_cast<int>(high_x) + 1, 0, width_);
    const int y0 = std::clamp(static_cast<int>(low_y), 0, height_),
              y1 = std::clamp(static_cast<int>(high_y) + 1, 0, height_);
    for (int y = y0; y < y1; ++y)
      for (int x = x0; x < x1; ++x) {
        const double middle = inside(x + 0.5, y + 0.5);
        if (middle < -0.71) continue;  // further than half a pixel's diagonal: wholly outside
        int hits = middle > 0.71 ? 9 : 0;
        if (hits == 0)
          for (int s = 0; s < 9; ++s)
            hits += inside(x + (s % 3 + 0.5) / 3, y + (s / 3 + 0.5) / 3) >= 0;
        if (hits > 0) put(x, y, colour, alpha * hits / 9.0);
      }
  }

  std::vector<uint8_t> take() { return std::move(rgb_); }

 private:
  void put(int x, int y, const Colour& c, double alpha) {
    uint8_t* at = rgb_.data() + 3 * (static_cast<size_t>(y) * static_cast<size_t>(width_) +
                                     static_cast<size_t>(x));
    const double value[3] = {c.r, c.g, c.b};
    for (int k = 0; k < 3; ++k)
      at[k] = static_cast<uint8_t>(
          std::clamp(at[k] * (1 - alpha) + value[k] * alpha + 0.5, 0.0, 255.0));
  }
  const View& view_;
  int width_, height_;
  std::vector<uint8_t> rgb_;
};

// The faces of an upright box turned about z that look at the camera, shaded by one lamp.
void add_box(std::vector<Face>& faces, const View& view, const Vec& centre, const Vec& half,
             double turn, const Colour& colour) {
  const Vec ex{std::cos(turn), std::sin(turn), 0}, ey{-std::sin(turn), std::cos(turn), 0},
      ez{0, 0, 1};
  const Vec axis[3] = {ex * half.x, ey * half.y, ez * half.z};
  const Vec lamp = unit({-0.45, -0.6, 1.0});
  for (int k = 0; k < 3; ++k)
    for (int sign = -1; sign <= 1; sign += 2) {
      const Vec normal = unit(axis[k] * sign), middle = centre + axis[k] * sign;
      if (dot(normal, view.eye - middle) <= 0) continue;
      const Vec u = axis[(k + 1) % 3], w = axis[(k + 2) % 3];
      const double light = 0.62 + 0.42 * std::max(0.0, dot(normal, lamp));
      faces.push_back({{middle + u + w, middle - u + w, middle - u - w, middle + u - w},
                       colour * light,
                       dot(middle - view.eye, view.forward),
                       1});
    }
}

std::array<Vec, 4> flat(const Vec& centre, double half_x, double half_y, double turn = 0) {
  const Vec ex = Vec{std::cos(turn), std::sin(turn), 0} * half_x,
            ey = Vec{-std::sin(turn), std::cos(turn), 0} * half_y;
  return {centre + ex + ey, centre - ex + ey, centre - ex - ey, centre + ex - ey};
}

void paint_table(Painter& painter, const View& view) {
  std::vector<Face> faces;
  add_box(faces, view, {0, 0, -0.02}, {0.42, 0.30, 0.02}, 0, kTableEdge);
  std::ranges::sort(faces, [](const Face& a, const Face& b) { return a.depth > b.depth; });
  for (const Face& face : faces) painter.quad(face.corner, face.colour);
  painter.quad(flat({0, 0, 0}, 0.42, 0.30), kTable);
  for (int i = -3; i <= 3; ++i)
    painter.quad(flat({0, i * 0.086, 0}, 0.42, 0.0012), kTableEdge, 0.25);
  painter.quad(flat({-0.24, -0.13, 0}, 0.07, 0.07), kTarget, 0.85);
  painter.quad(flat({-0.24, -0.13, 0}, 0.055, 0.055), kTable);
}

}  // namespace

Image Scene::draw(Camera camera, double time_s) const {
  const Pose pose = pose_at(time_s);
  const View view = view_of(camera, pose, width_, height_);
  Painter painter(view, width_, height_);
  painter.background({208, 216, 226}, {150, 160, 174});
  paint_table(painter, view);
  // Soft shadows: a few growing, faint quads.
  for (int i = 4; i >= 0; --i) {
    const double grow = 1.0 + 0.16 * i;
    painter.quad(flat({pose.cube.x + 0.018, pose.cube.y + 0.02, 0}, kCubeSide / 2 * grow,
                      kCubeSide / 2 * grow, pose.cube_turn),
                 kShadow, 0.17);
    painter.quad(flat({pose.tip.x + 0.05, pose.tip.y + 0.06, 0}, 0.055 * grow, 0.02 * grow),
                 kShadow, 0.10);
  }
  std::vector<Face> cube, gripper;
  add_box(cube, view, pose.cube, {kCubeSide / 2, kCubeSide / 2, kCubeSide / 2}, pose.cube_turn,
          kCube);
  const Vec tip = pose.tip;
  for (int side = -1; side <= 1; side += 2)
    add_box(gripper, view, tip + Vec{side * pose.opening / 2, 0, 0.03}, {0.008, 0.012, 0.035}, 0,
            kMetal);
  add_box(gripper, view, tip + Vec{0, 0, 0.075}, {0.072, 0.018, 0.012}, 0, kDark);
  if (camera == Camera::kFront) {  // the wrist camera looks past them
    add_box(gripper, view, tip + Vec{0, 0, 0.13}, {0.022, 0.022, 0.045}, 0, kMetal);
    add_box(gripper, view, tip + Vec{0, 0, 0.32}, {0.034, 0.034, 0.15}, 0, kDark);
  }
  for (auto* faces : {&cube, &gripper}) {
    std::ranges::sort(*faces, [](const Face& a, const Face& b) { return a.depth > b.depth; });
    for (const Face& face : *faces) painter.quad(face.corner, face.colour, face.alpha);
  }
  return {width_, height_, painter.take()};
}

PixelPoint Scene::gripper_pixel(Camera camera, double time_s, double dx, double dy,
                                double dz) const {
  const Pose pose = pose_at(time_s);
  return view_of(camera, pose, width_, height_).project(pose.tip + Vec{dx, dy, dz});
}

std::vector<float> Scene::state(double time_s) const {
  const Pose p = pose_at(time_s);
  const double values[8] = {
      p.tip.x / 0.4,  p.tip.y / 0.3,  p.tip.z / 0.3 - 0.5, p.opening / 0.06 - 1,
      p.cube.x / 0.4, p.cube.y / 0.3, p.cube_turn,         0};
  std::vector<float> out;
  for (double value : values) out.push_back(static_cast<float>(std::clamp(value, -1.0, 1.0)));
  return out;
}

}  // namespace outrider::cli
