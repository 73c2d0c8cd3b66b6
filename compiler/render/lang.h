// What differs between C-like languages, as data: c_style.cc writes the program, a Lang says how things are spelt. {0} {1} {2} are operands,
// {t} the result's type.
#pragma once
#include <span>
#include <string_view>

#include "ir/uop.h"

namespace tg {

enum class SpellFor : u8 { Any, Float, Int, Bool };  // Int includes index; Bool is bool alone
struct Spelling {
  Op op;
  SpellFor of;
  std::string_view scalar;
  std::string_view vector;  // empty: as scalar
};

struct Lang {
  std::string_view name;
  std::string_view prologue;
  std::string_view kernel;      // before the entry's name
  std::string_view global, local;  // address spaces, with a trailing space
  std::string_view barrier;
  std::string_view group_id, local_id;  // {0} is the dimension; empty: a CPU, whose entry takes (args, vars, task)
  std::string_view type[int(Kind::Void) + 1];  // by kind; empty: the language has no such kind
  // Vectors. wide: clang's ext_vector_type, any number of lanes, vectors of bool; else OpenCL's 2, 4, 8, 16 with masks of char.
  bool wide;
  bool wraps;                   // signed overflow is defined (the compiler is told so)
  std::string_view inf, nan;    // of f32 and f64
  std::span<const Spelling> spell;
};

extern const Lang kLangC;       // clang's C; the CPU's entry
extern const Lang kLangOpenCL;

}  // namespace tg
