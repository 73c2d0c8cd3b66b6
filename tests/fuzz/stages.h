// The stages that a random graph is run through: each gives the outputs by another way.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph_gen.h"

namespace tg::fuzz {

struct Stage {
  const char* name;
  std::vector<Values> (*run)(const Case& c);  // the case's arena is current; throws Error with what is wrong
  bool asked = false;                         // runs only if --stage names it: slow
};
std::span<const Stage> stages();
// Where sums are made of rows that are rounded to 16 bits (A16W8=1), want becomes what those give, by the interpreter, and the case's errors what another
// order of the rest may change in them. False: there are no such sums. Throws where they are far from the exact ones.
bool round_rows(Case& c, std::vector<Values>* want);
const char* now_running();  // the kernel and its Opts, for the message of a crash
std::string take_ran();    // a line for each kernel with Opts that has run since the last call

}  // namespace tg::fuzz
