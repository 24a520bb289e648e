#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace outrider {

// Values that live as long as somebody uses them, by key. Only touched during open.
template <class T>
class SharedByKey {
 public:
  template <class Make>
  Result<std::shared_ptr<const T>> get(const std::string& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    std::erase_if(map_, [](const auto& entry) { return entry.second.expired(); });
    if (auto found = map_[key].lock()) return found;
    Result<std::shared_ptr<const T>> made = make();
    if (made) {
      map_[key] = made.value();
    } else {
      map_.erase(key);
    }
    return made;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const T>> map_;
};

}  // namespace outrider
