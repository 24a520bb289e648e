#pragma once
namespace outrider::cli {
inline constexpr const char* kVersion = OUTRIDER_VERSION;
}
