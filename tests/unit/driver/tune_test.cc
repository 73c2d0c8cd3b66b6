// Jobs with given Opts, and what a search asks of its workers, in this process.
#include "driver/tune.h"

#include <gtest/gtest.h>

#include "base/settings.h"
#include "driver/tune_job.h"
#include "ir/tensor.h"
#include "ir/text.h"

using namespace tg;
using namespace tg::driver;

namespace {

// relu of x[32, 64] times the constant w[64, 48], for a CPU with 256-bit vectors.
KernelJob matmul() {
  KernelJob j;
  j.ast = R"(%0 = CONST index 32
%1 = CONST index 48
%2 = PARAM f32 #0 %0 %1
%3 = RANGE index [0, 0, 0, 4] %0
%4 = RANGE index [1, 0, 0, 4] %1
%5 = INDEX f32 %2 %3 %4
%6 = CONST index 64
%7 = PARAM f32 #1 %0 %6
%8 = RANGE index [2, 0, 1, 8] %6
%9 = INDEX f32 %7 %3 %8
%10 = LOAD f32 %9
%11 = PARAM f32 #2 %6 %1
%12 = INDEX f32 %11 %8 %4
%13 = LOAD f32 %12
%14 = MUL f32 %10 %13
%15 = REDUCE f32 [0] %14 %8
%16 = CONST f32 0
%17 = MAX f32 %15 %16
%18 = STORE void %5 %17 %3 %4
%19 = SINK void %18
)";
  for (std::vector<i64> d : {std::vector<i64>{32, 48}, {32, 64}, {64, 48}}) {
    Slot s;
    s.dims = d, s.layout = Layout::row_major(d), s.constant = j.slots.size() == 2;
    j.slots.push_back(s);
  }
  j.renderer = "LLVM", j.arch = "x86_64,haswell", j.entry = "k";
  return j;
}

TEST(Job, TravelsWithItsOpts) {
  KernelJob j = matmul();
  EXPECT_FALSE(KernelJob::parse(j.bytes()).opts);
  j.opts = "";
  ASSERT_TRUE(KernelJob::parse(j.bytes()).opts);
  j.opts = "VECTOR 1 8, PACK 2";
  EXPECT_EQ(KernelJob::parse(j.bytes()).opts, j.opts);
}

TEST(Job, GivenOptsAreTaken) {
  KernelJob j = matmul();
  Result<CompiledKernel> by_heuristics = compile_kernel(j);
  ASSERT_TRUE(by_heuristics) << by_heuristics.why();
  j.opts = by_heuristics->opts;
  Result<CompiledKernel> given = compile_kernel(j);
  ASSERT_TRUE(given) << given.why();
  EXPECT_EQ(given->object, by_heuristics->object);
  EXPECT_EQ(given->layouts, by_heuristics->layouts);
  j.opts = "UPCAST 0 4";
  given = compile_kernel(j);
  ASSERT_TRUE(given) << given.why();
  EXPECT_EQ(given->opts, "UPCAST 0 4");
  EXPECT_NE(given->object, by_heuristics->object);
  j.opts = "";
  given = compile_kernel(j);
  ASSERT_TRUE(given) << given.why();
  EXPECT_EQ(given->opts, "");
}

TEST(Job, RefusedOptsAreAReason) {
  KernelJob j = matmul();
  j.opts = "VECTOR 1 8, UPCAST 0 5";
  Result<CompiledKernel> k = compile_kernel(j);
  ASSERT_FALSE(k);
  EXPECT_EQ(k.why(), "UPCAST 0 5: axis 0 of size 32 is no multiple of 5");
  j.opts = "FLY 0 5";
  EXPECT_EQ(compile_kernel(j).why(), "no Opt is called FLY");
  Result<WorkBytes> answer = worker_job_bytes(j.bytes());
  EXPECT_FALSE(answer);
}

TEST(Job, DigestIsOfTheKernelAlone) {
  KernelJob a = matmul(), b = matmul();
  b.entry = "other", b.opts = "UPCAST 0 4";
  EXPECT_EQ(kernel_digest(a), kernel_digest(b));
  b.arch = "x86_64,znver4";
  EXPECT_NE(kernel_digest(a), kernel_digest(b));
  b = matmul();
  b.slots[1].layout = Layout::permuted(b.slots[1].dims, std::vector<i64>{1, 0});
  EXPECT_NE(kernel_digest(a), kernel_digest(b));
}

TEST(Proposals, LegalOnesHaveAnEstimate) {
  ProposeJob job{
      matmul(),
      {"VECTOR 1 8, UPCAST 0 4, PACK 2", "UPCAST 0 5", "PACK 2, UPCAST 0 4, VECTOR 1 8, THREAD 0 2", "UPCAST 0 4, VECTOR 1 8", "nonsense"},
      true};
  Result<WorkBytes> answer = worker_job_bytes(job.bytes());
  ASSERT_TRUE(answer) << answer.why();
  std::vector<Result<Proposal>> p = parse_proposals(*answer);
  ASSERT_EQ(p.size(), 5u);
  ASSERT_TRUE(p[0] && p[2] && p[3]);
  // PACK follows the loops, then tasks as the work asks for them.
  EXPECT_TRUE(p[0]->opts.starts_with("VECTOR 1 8, UPCAST 0 4, PACK 2")) << p[0]->opts;
  EXPECT_TRUE(p[2]->opts.starts_with("UPCAST 0 4, VECTOR 1 8, PACK 2")) << p[2]->opts;
  EXPECT_GT(p[0]->estimate_ns, 0);
  EXPECT_EQ(p[0]->shape, p[2]->shape);  // axes do not mind the order
  EXPECT_NE(p[0]->shape, p[3]->shape);  // another layout of w
  EXPECT_EQ(p[1].why(), "UPCAST 0 5: axis 0 of size 32 is no multiple of 5");
  EXPECT_FALSE(p[4]);
}

TEST(Proposals, Limits) {
  ProposeJob job{matmul(), {"UPCAST 0 32, UPCAST 1 16"}, true};
  std::string why = parse_proposals(*worker_job_bytes(job.bytes()))[0].why();
  EXPECT_NE(why.find("BEAM_UPCAST_MAX"), why.npos) << why;
  with_context({{settings::BEAM_UOPS_MAX, 10}}, [&] {
    job.opts = {"VECTOR 1 8"};
    std::string many = parse_proposals(*worker_job_bytes(job.bytes()))[0].why();
    EXPECT_NE(many.find("BEAM_UOPS_MAX"), many.npos) << many;
    job.limited = false;  // seeds are what they are
    EXPECT_TRUE(parse_proposals(*worker_job_bytes(job.bytes()))[0]);
  });
}

}  // namespace
