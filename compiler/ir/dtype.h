// Dtypes: a scalar kind and a lane count. Lanes other than 1 exist in the linear form only.
#pragma once
#include <string>
#include <string_view>

#include "base/types.h"
#include "formats/dtype.h"

namespace tg {

// The kinds of formats/dtype.h in its order, then the compiler's own: index (an integer as wide as the target needs) and void (effects).
enum class Kind : u8 {
#define TG_KIND(Name, NAME, text, bits, cls, onnx, npy) Name,
  TGF_DTYPES(TG_KIND)
#undef TG_KIND
      Index,
  Void,
};
static_assert(int(Kind::Index) == int(tgf::kDtypes));

struct DType {
  Kind kind = Kind::Void;
  u16 lanes = 1;
  constexpr DType() = default;
  constexpr DType(Kind k, u16 n = 1) : kind(k), lanes(n) {}
  constexpr bool operator==(const DType&) const = default;
  constexpr DType scalar() const { return {kind}; }
  constexpr DType vec(u16 n) const { return {kind, n}; }
};

constexpr bool is_stored(Kind k) { return k < Kind::Index; }
constexpr bool is_float(Kind k) { return is_stored(k) && tgf::row(tgf::Dtype(k)).cls == tgf::Class::Float; }
constexpr bool is_uint(Kind k) { return is_stored(k) && tgf::row(tgf::Dtype(k)).cls == tgf::Class::Uint; }
constexpr bool is_sint(Kind k) { return k == Kind::Index || (is_stored(k) && tgf::row(tgf::Dtype(k)).cls == tgf::Class::Int); }
constexpr bool is_int(Kind k) { return is_uint(k) || is_sint(k); }
// Storage kinds are loaded and stored; arithmetic on them is done in a wider kind.
constexpr bool is_storage(Kind k) { return k > Kind::F64 && k < Kind::Index; }
constexpr bool is_float(DType d) { return is_float(d.kind); }
constexpr bool is_uint(DType d) { return is_uint(d.kind); }
constexpr bool is_sint(DType d) { return is_sint(d.kind); }
constexpr bool is_int(DType d) { return is_int(d.kind); }

// Bits of one element; Index counts as 64 and Void as 0.
constexpr int bits(Kind k) { return is_stored(k) ? tgf::row(tgf::Dtype(k)).bits : k == Kind::Index ? 64 : 0; }
constexpr int bits(DType d) { return bits(d.kind); }

// Bytes of n elements packed densely (2- and 4-bit kinds share bytes).
constexpr i64 byte_size(Kind k, i64 n) { return (n * bits(k) + 7) / 8; }

std::string_view name(Kind k);
std::string name(DType d);                    // "f32", "f32x16"
bool kind_from_name(std::string_view s, Kind* out);

// Smallest and largest value of an integer kind (u64's largest is given as i64 max: bounds are kept in i64).
i64 int_min(Kind k);
i64 int_max(Kind k);

}  // namespace tg
