// Every kind of number that a tensor in a bundle can have: one row each. The schema's enum, tgb_dtype in tgb.h and the compiler's kinds are
// made from these rows or tied to them by static_assert. Usable from C.
#pragma once
#include <stdint.h>

// X(Name, NAME, text, bits, class, onnx, npy)
//   bits   of one element in memory; kinds under 8 bits are packed, the first element in the low bits of a byte
//   class  Bool, Int (two's complement), Uint, Float
//   onnx   TensorProto.DataType (https://onnx.ai/onnx/api/mapping.html)
//   npy    how a .npy file holds it: kinds that npy cannot name are raw unsigned integers, those under 8 bits one a byte
// clang-format off
#define TGF_DTYPES(X)                                                \
  X(Bool,       BOOL,       "bool",        8, Bool,   9, "|b1")      \
  X(I8,         I8,         "i8",          8, Int,    3, "|i1")      \
  X(I16,        I16,        "i16",        16, Int,    5, "<i2")      \
  X(I32,        I32,        "i32",        32, Int,    6, "<i4")      \
  X(I64,        I64,        "i64",        64, Int,    7, "<i8")      \
  X(U8,         U8,         "u8",          8, Uint,   2, "|u1")      \
  X(U16,        U16,        "u16",        16, Uint,   4, "<u2")      \
  X(U32,        U32,        "u32",        32, Uint,  12, "<u4")      \
  X(U64,        U64,        "u64",        64, Uint,  13, "<u8")      \
  X(F16,        F16,        "f16",        16, Float, 10, "<f2")      \
  X(BF16,       BF16,       "bf16",       16, Float, 16, "<u2")      \
  X(F32,        F32,        "f32",        32, Float,  1, "<f4")      \
  X(F64,        F64,        "f64",        64, Float, 11, "<f8")      \
  X(I2,         I2,         "i2",          2, Int,   26, "|u1")      \
  X(U2,         U2,         "u2",          2, Uint,  25, "|u1")      \
  X(I4,         I4,         "i4",          4, Int,   22, "|u1")      \
  X(U4,         U4,         "u4",          4, Uint,  21, "|u1")      \
  X(F8E4M3FN,   F8E4M3FN,   "f8e4m3fn",    8, Float, 17, "|u1")      \
  X(F8E4M3FNUZ, F8E4M3FNUZ, "f8e4m3fnuz",  8, Float, 18, "|u1")      \
  X(F8E5M2,     F8E5M2,     "f8e5m2",      8, Float, 19, "|u1")      \
  X(F8E5M2FNUZ, F8E5M2FNUZ, "f8e5m2fnuz",  8, Float, 20, "|u1")      \
  X(F8E8M0,     F8E8M0,     "f8e8m0",      8, Float, 24, "|u1")      \
  X(F4E2M1,     F4E2M1,     "f4e2m1",      4, Float, 23, "|u1")
// clang-format on

#ifdef __cplusplus
namespace tgf {

enum class Class : uint8_t { Bool, Int, Uint, Float };
enum class Dtype : uint8_t {
#define TGF_X(Name, NAME, text, bits, cls, onnx, npy) Name,
  TGF_DTYPES(TGF_X)
#undef TGF_X
      Count
};
constexpr uint32_t kDtypes = uint32_t(Dtype::Count);

struct DtypeRow {  // arrays, not pointers: nothing to relocate
  char text[11];
  char npy[4];
  uint8_t bits;
  Class cls;
  uint8_t onnx;
};
inline constexpr DtypeRow kDtypeRows[kDtypes] = {
#define TGF_X(Name, NAME, text, bits, cls, onnx, npy) {text, npy, bits, Class::cls, onnx},
    TGF_DTYPES(TGF_X)
#undef TGF_X
};
constexpr const DtypeRow& row(Dtype d) { return kDtypeRows[uint32_t(d)]; }

// Bytes of `elems` densely packed elements; elems must not be negative and elems * bits must fit 63 bits.
constexpr int64_t dense_bytes(Dtype d, int64_t elems) { return (elems * row(d).bits + 7) / 8; }

}  // namespace tgf
#endif
