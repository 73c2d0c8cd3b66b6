#include "render/lang.h"

namespace tg {
namespace {

// clang-format off
constexpr Spelling kC[] = {
  // op          of                scalar                              vector
  {Op::Neg,      SpellFor::Any,    "-{0}",                             ""},
  {Op::Not,      SpellFor::Bool,   "!{0}",                             "~{0}"},
  {Op::Not,      SpellFor::Any,    "~{0}",                             ""},
  {Op::Abs,      SpellFor::Any,    "__builtin_elementwise_abs({0})",   ""},
  {Op::Sqrt,     SpellFor::Any,    "__builtin_elementwise_sqrt({0})",  ""},
  {Op::Recip,    SpellFor::Any,    "1 / {0}",                          ""},
  {Op::Floor,    SpellFor::Any,    "__builtin_elementwise_floor({0})", ""},
  {Op::Ceil,     SpellFor::Any,    "__builtin_elementwise_ceil({0})",  ""},
  {Op::Trunc,    SpellFor::Any,    "__builtin_elementwise_trunc({0})", ""},
  {Op::Round,    SpellFor::Any,    "__builtin_elementwise_roundeven({0})", ""},
  {Op::Add,      SpellFor::Any,    "{0} + {1}",                        ""},
  {Op::Sub,      SpellFor::Any,    "{0} - {1}",                        ""},
  {Op::Mul,      SpellFor::Any,    "{0} * {1}",                        ""},
  {Op::Div,      SpellFor::Any,    "{0} / {1}",                        ""},
  {Op::Rem,      SpellFor::Int,    "{0} % {1}",                        ""},
  {Op::Max,      SpellFor::Int,    "{0} > {1} ? {0} : {1}",            "__builtin_elementwise_max({0}, {1})"},
  {Op::Min,      SpellFor::Int,    "{0} < {1} ? {0} : {1}",            "__builtin_elementwise_min({0}, {1})"},
  {Op::And,      SpellFor::Any,    "{0} & {1}",                        ""},
  {Op::Or,       SpellFor::Any,    "{0} | {1}",                        ""},
  {Op::Xor,      SpellFor::Any,    "{0} ^ {1}",                        ""},
  {Op::Shl,      SpellFor::Any,    "{0} << {1}",                       ""},
  {Op::Shr,      SpellFor::Any,    "{0} >> {1}",                       ""},
  {Op::Lt,       SpellFor::Any,    "{0} < {1}",                        ""},
  {Op::Le,       SpellFor::Any,    "{0} <= {1}",                       ""},
  {Op::Eq,       SpellFor::Any,    "{0} == {1}",                       ""},
  {Op::Ne,       SpellFor::Any,    "{0} != {1}",                       ""},
  {Op::MulAcc,   SpellFor::Float,  "__builtin_elementwise_fma({0}, {1}, {2})", ""},
  {Op::MulAcc,   SpellFor::Any,    "{0} * {1} + {2}",                  ""},
};
constexpr Spelling kOpenCL[] = {
  {Op::Neg,      SpellFor::Any,    "-{0}",                             ""},
  {Op::Not,      SpellFor::Bool,   "!{0}",                             "~{0}"},
  {Op::Not,      SpellFor::Any,    "~{0}",                             ""},
  {Op::Abs,      SpellFor::Float,  "fabs({0})",                        ""},
  {Op::Abs,      SpellFor::Int,    "({t})abs({0})",                    "as_{t}(abs({0}))"},
  {Op::Sqrt,     SpellFor::Any,    "sqrt({0})",                        ""},
  {Op::Recip,    SpellFor::Any,    "1 / {0}",                          ""},
  {Op::Floor,    SpellFor::Any,    "floor({0})",                       ""},
  {Op::Ceil,     SpellFor::Any,    "ceil({0})",                        ""},
  {Op::Trunc,    SpellFor::Any,    "trunc({0})",                       ""},
  {Op::Round,    SpellFor::Any,    "rint({0})",                        ""},
  {Op::Add,      SpellFor::Any,    "{0} + {1}",                        ""},
  {Op::Sub,      SpellFor::Any,    "{0} - {1}",                        ""},
  {Op::Mul,      SpellFor::Any,    "{0} * {1}",                        ""},
  {Op::Div,      SpellFor::Any,    "{0} / {1}",                        ""},
  {Op::Rem,      SpellFor::Int,    "{0} % {1}",                        ""},
  {Op::Max,      SpellFor::Int,    "max({0}, {1})",                    ""},
  {Op::Min,      SpellFor::Int,    "min({0}, {1})",                    ""},
  {Op::And,      SpellFor::Any,    "{0} & {1}",                        ""},
  {Op::Or,       SpellFor::Any,    "{0} | {1}",                        ""},
  {Op::Xor,      SpellFor::Bool,   "{0} != {1}",                       "{0} ^ {1}"},
  {Op::Xor,      SpellFor::Any,    "{0} ^ {1}",                        ""},
  {Op::Shl,      SpellFor::Any,    "{0} << {1}",                       ""},
  {Op::Shr,      SpellFor::Any,    "{0} >> {1}",                       ""},
  {Op::Lt,       SpellFor::Any,    "{0} < {1}",                        ""},
  {Op::Le,       SpellFor::Any,    "{0} <= {1}",                       ""},
  {Op::Eq,       SpellFor::Any,    "{0} == {1}",                       ""},
  {Op::Ne,       SpellFor::Any,    "{0} != {1}",                       ""},
  {Op::MulAcc,   SpellFor::Float,  "fma({0}, {1}, {2})",               ""},
  {Op::MulAcc,   SpellFor::Any,    "{0} * {1} + {2}",                  ""},
};
// clang-format on

}  // namespace

// Kinds in the order of formats/dtype.h: bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64, ten storage kinds, index, void.
const Lang kLangC = {
    .name = "C",
    .prologue =
        "typedef signed char i8;\ntypedef short i16;\ntypedef int i32;\ntypedef long long i64;\n"
        "typedef unsigned char u8;\ntypedef unsigned short u16;\ntypedef unsigned int u32;\ntypedef unsigned long long u64;\n"
        "typedef _Float16 f16;\ntypedef float f32;\ntypedef double f64;\n",
    .kernel = "void",
    .global = "",
    .local = "",
    .barrier = "",
    .group_id = "",
    .local_id = "",
    .type = {"_Bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "", "f32", "f64", "", "", "", "", "", "", "", "", "", "", "i64", "void"},
    .wide = true,
    .wraps = true,
    .inf = "__builtin_inff()",
    .nan = "__builtin_nanf(\"\")",
    .spell = kC,
};
const Lang kLangOpenCL = {
    .name = "OpenCL",
    .prologue = "#pragma OPENCL FP_CONTRACT OFF\n",
    .kernel = "__kernel void",
    .global = "__global ",
    .local = "__local ",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
    .group_id = "get_group_id({0})",
    .local_id = "get_local_id({0})",
    .type = {"bool", "char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "half", "", "float", "double", "", "", "", "", "", "", "", "", "", "", "long", "void"},
    .wide = false,
    .wraps = false,
    .inf = "INFINITY",
    .nan = "NAN",
    .spell = kOpenCL,
};

}  // namespace tg
