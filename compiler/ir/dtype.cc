#include "ir/dtype.h"

#include <limits>

#include "base/error.h"

namespace tg {

std::string_view name(Kind k) { return is_stored(k) ? tgf::row(tgf::Dtype(k)).text : k == Kind::Index ? "index" : "void"; }

std::string name(DType d) { return d.lanes == 1 ? std::string(name(d.kind)) : str(name(d.kind), "x", d.lanes); }

bool kind_from_name(std::string_view s, Kind* out) {
  for (int k = 0; k <= int(Kind::Void); k++)
    if (name(Kind(k)) == s) return *out = Kind(k), true;
  return false;
}

i64 int_min(Kind k) {
  if (k == Kind::Bool || is_uint(k)) return 0;
  return bits(k) == 64 ? std::numeric_limits<i64>::min() : -(i64(1) << (bits(k) - 1));
}

i64 int_max(Kind k) {
  if (k == Kind::Bool) return 1;
  if (bits(k) == 64) return std::numeric_limits<i64>::max();
  return (i64(1) << (bits(k) - (is_uint(k) ? 0 : 1))) - 1;
}

}  // namespace tg
