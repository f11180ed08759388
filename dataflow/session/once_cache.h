// A bounded cache that computes each value once and does not block requests for other values meanwhile.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace rivulet {

// Thread-safe. Values live as long as any owner.
template <typename Value>
class OnceCache {
 public:
  explicit OnceCache(size_t capacity) : capacity_(capacity) {}

  // Returns the value of `key`. If it is missing, `make` computes it (a StatusOr<std::shared_ptr<Value>>), without the
  // cache's lock, and once for any number of callers. Errors are returned and not cached. Above the capacity, the least
  // recently used value is dropped.
  template <typename Make>
  StatusOr<std::shared_ptr<Value>> Get(const std::string& key, Make&& make) {
    const std::shared_ptr<Entry> entry = Touch(key);
    MutexLock lock(entry->mutex);
    if (entry->value != nullptr) return entry->value;
    StatusOr<std::shared_ptr<Value>> made = make();
    if (made.ok()) {
      entry->value = *made;
    } else {
      Drop(key, entry);
    }
    return made;
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return by_key_.size();
  }

 private:
  struct Entry {
    Mutex mutex;  // held while the value is computed
    std::shared_ptr<Value> value GUARDED_BY(mutex);
  };
  using Order = std::list<std::pair<std::string, std::shared_ptr<Entry>>>;  // most recently used first

  std::shared_ptr<Entry> Touch(const std::string& key) {
    MutexLock lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    order_.emplace_front(key, std::make_shared<Entry>());
    by_key_.emplace(key, order_.begin());
    if (by_key_.size() > capacity_ && by_key_.size() > 1) {
      by_key_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  void Drop(const std::string& key, const std::shared_ptr<Entry>& entry) {
    MutexLock lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end() || found->second->second != entry) return;
    order_.erase(found->second);
    by_key_.erase(found);
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  Order order_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, typename Order::iterator> by_key_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
