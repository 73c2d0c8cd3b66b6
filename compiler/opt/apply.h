// The Opts that have no header of their own, each a function: the kernel with it, or why not. What they do stands in opts.cc.
#pragma once
#include "opt/axes.h"

namespace tg::opt {

R split(const Kernel& k, const Opt& o, AxisKind kind);  // split.cc: UPCAST, VECTOR, UNROLL, and the group of TC
R vector(const Kernel& k, const Opt& o);
R thread(const Kernel& k, const Opt& o);  // tasks.cc
R swap(const Kernel& k, const Opt& o);    // order.cc
R tile(const Kernel& k, const Opt& o);
R padto(const Kernel& k, const Opt& o);  // pad.cc
R peel(const Kernel& k, const Opt& o);   // peel.cc
R pack(const Kernel& k, const Opt& o);   // pack.cc
R bypass(const Kernel& k, const Opt& o);  // bypass.cc
R prefetch(const Kernel& k, const Opt& o);

// nest.cc: why the loops are no nest (a loop outside one that its size depends on, or in two places), and why a row would not be whole
// where it is read (a loop over it outside one that it is written in). Empty: all is well.
std::string not_nested(UOp ast);
std::string not_whole(UOp ast);
std::string too_many_unrolled(UOp ast);  // over kMostUnrolledRanges of them

}  // namespace tg::opt
