// A moving picture for the demo: a table, a cube that travels over it and a gripper that follows.
// Drawn from scratch, the same on every machine.
#pragma once
#include <cstdint>
#include <vector>

#include "vision/image.h"

namespace outrider::cli {

enum class Camera : uint8_t { kFront, kWrist };

// Pixel of a point of the scene, for drawing over a picture.
struct PixelPoint {
  double x = 0, y = 0;
};

class Scene {
 public:
  // Both sizes 16 .. 1024.
  Scene(int width, int height) : width_(width), height_(height) {}

  // The picture at this time. About 3 ms for 224 x 224.
  Image draw(Camera camera, double time_s) const;
  // Where the tip of the gripper is in the picture, and where a point `dx, dy, dz` metres from it
  // is.
  PixelPoint gripper_pixel(Camera camera, double time_s, double dx = 0, double dy = 0,
                           double dz = 0) const;
  // Eight numbers for the policy: place and opening of the gripper, place of the cube, in -1 .. 1.
  std::vector<float> state(double time_s) const;

 private:
  int width_, height_;
};

}  // namespace outrider::cli
