// A map from nodes to values that starts small: for what one pass remembers, where a Memo over the whole arena would cost more than the pass.
#pragma once
#include <vector>

#include "ir/uop.h"

namespace tg {

template <class T>
class IdMap {
 public:
  // The value of u, or null. Valid until the next set().
  T* find(UOp u) {
    if (keys_.empty()) return nullptr;
    size_t i = slot(u.id() + 1);
    return keys_[i] ? &values_[i] : nullptr;
  }
  void set(UOp u, T v) {
    if ((n_ + 1) * 2 > keys_.size()) grow();
    size_t i = slot(u.id() + 1);
    if (!keys_[i]) keys_[i] = u.id() + 1, n_++;
    values_[i] = std::move(v);
  }
  void clear() { keys_.clear(), values_.clear(), n_ = 0; }

 private:
  size_t slot(u32 key) const {
    size_t mask = keys_.size() - 1, i = key * 0x9E3779B97F4A7C15ull >> 20 & mask;
    while (keys_[i] && keys_[i] != key) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<u32> k = std::move(keys_);
    std::vector<T> v = std::move(values_);
    keys_.assign(k.empty() ? 64 : k.size() * 2, 0);
    values_.clear();
    values_.resize(keys_.size());
    for (size_t i = 0; i < k.size(); i++)
      if (k[i]) {
        size_t j = slot(k[i]);
        keys_[j] = k[i], values_[j] = std::move(v[i]);
      }
  }
  std::vector<u32> keys_;  // id + 1; 0 is empty
  std::vector<T> values_;
  size_t n_ = 0;
};

}  // namespace tg
