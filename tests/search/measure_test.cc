// Planted candidates: each is refused with its reason, and the next one is measured as if nothing had been. Times themselves are not looked
// at. This program is its own measurer: started as `worker` it serves jobs.
#include "search/measure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/settings.h"
#include "base/workers.h"
#include "driver/tune_job.h"
#include "ir/text.h"

using namespace tg;

namespace {

std::vector<u8> file(const char* path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

class Measure : public ::testing::Test {
 protected:
  Measure() : measurer(1, {"/proc/self/exe", "worker"}, "measurer") {
    for (int i = 0; i < 3; i++) slot(i == 0, i == 2);
    program(&job.base, "good");
  }
  void slot(bool written, bool constant, Kind kind = Kind::F32, std::vector<i64> dims = {100}) {
    MeasureSlot s;
    s.kind = kind, s.dims = dims, s.layout = Layout::row_major(dims), s.constant = constant, s.read = !written, s.written = written;
    job.subject.slots.push_back(s);
    job.base.layouts.push_back(s.layout);
  }
  void program(MeasuredProgram* p, const char* entry, i64 tasks = 1) {
    p->object = file(PLANTED), p->entry = entry, p->tasks = tasks;
    if (p->layouts.empty()) p->layouts = job.base.layouts;
  }
  Result<Measured> run(f64 timeout = 60) {
    WorkBytes b = driver::measure_job_bytes(job);
    Result<WorkBytes> a = measurer.run(std::span(&b, 1), timeout)[0];
    if (!a) return Result<Measured>::no(a.why());
    return Measured::parse(*a);
  }
  // Why the candidate is refused; the good one must do well afterwards.
  std::string refusal(const char* entry, f64 timeout = 60) {
    program(&job.candidate, entry);
    Result<Measured> m = run(timeout);
    program(&job.candidate, "good");
    Result<Measured> good = run();
    EXPECT_TRUE(good) << "after " << entry << ": " << good.why();
    return m ? "not refused" : m.why();
  }

  MeasureJob job;
  Workers measurer;
};

void has(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), text.npos) << text; }

TEST_F(Measure, GoodOnes) {
  Result<Measured> base = run();
  ASSERT_TRUE(base) << base.why();
  EXPECT_GT(base->ns, 0);
  EXPECT_GT(base->runs, 1);
  program(&job.candidate, "nearly");
  Result<Measured> near = run();
  EXPECT_TRUE(near) << near.why();
  program(&job.candidate, "halves", 2);
  Result<Measured> halves = run();
  EXPECT_TRUE(halves) << halves.why();
  job.compare = true;
  Result<Measured> both = run();
  ASSERT_TRUE(both) << both.why();
  EXPECT_GT(both->base_ns, 0);
  EXPECT_GT(both->ratio, 0);
}

// Of free size: checked at each, 50 and 1 as well as 100.
TEST_F(Measure, SizesThatAreFree) {
  job.subject.sizes = {{100}, {50}, {1}};
  program(&job.base, "some");
  Result<Measured> base = run();
  ASSERT_TRUE(base) << base.why();
  auto refused = [&](const char* entry) {
    program(&job.candidate, entry);
    Result<Measured> m = run();
    return m ? "not refused" : m.why();
  };
  EXPECT_EQ(refused("some"), "not refused");
  has(refused("some_in_vectors"), "it computes a wrong value: element 50 of slot 0");
  has(refused("some_not_of_one"), "it computes a wrong value: element 0 of slot 0");
  has(refused("good"), "it computes a wrong value: element 50 of slot 0");
  program(&job.candidate, "some");
  job.compare = true;
  Result<Measured> both = run();
  ASSERT_TRUE(both) << both.why();
  EXPECT_GT(both->ratio, 0);
  EXPECT_GT(both->runs, base->runs / 10);
}

TEST_F(Measure, Crash) {
  has(refusal("crash"), "the measurer died of signal 11");
  has(refusal("abort_"), "the measurer died of signal 4");
}

TEST_F(Measure, Hang) { has(refusal("hang", 1), "the measurer did not answer within 1 s"); }

TEST_F(Measure, OutOfBounds) {
  has(refusal("write_behind"), "it writes outside slot 0, 4 bytes behind the end");
  has(refusal("write_before"), "it writes outside slot 0, 12 bytes before the start");
  has(refusal("write_far"), "it touches 16384 bytes behind the end of slot 0");
  has(refusal("write_input"), "it touches what it may only read in slot 1");
  has(refusal("write_weight"), "it touches what it may only read in slot 2");
  has(refusal("read_far"), "behind the end of slot 1");
}

TEST_F(Measure, WrongValues) {
  has(refusal("wrong"), "it computes a wrong value: element 63 of slot 0");
  has(refusal("forgets"), "it computes a wrong value: element 99 of slot 0");
  has(refusal("not_a_number"), "it computes a wrong value: element 5 of slot 0");
}

TEST_F(Measure, NoSuchEntry) { has(refusal("nothing"), "has no entry 'nothing'"); }

TEST_F(Measure, IndicesAreValid) {
  slot(false, false, Kind::I64);
  job.subject.slots[3].limit = 7;
  job.subject.slots[2].dims = {7, 1000};
  job.subject.slots[2].layout = job.base.layouts[2] = Layout::row_major(job.subject.slots[2].dims);
  program(&job.base, "gather");
  Result<Measured> m = run();
  EXPECT_TRUE(m) << m.why();
}

TEST_F(Measure, InPlace) {
  job.subject.slots.erase(job.subject.slots.begin());
  job.base.layouts.pop_back();
  job.subject.slots[0].written = true;
  program(&job.base, "in_place");
  program(&job.candidate, "in_place");
  Result<Measured> m = run();
  EXPECT_TRUE(m) << m.why();
}

// What is known of a kernel from its form: an index that is loaded stays inside what it indexes.
TEST_F(Measure, Facts) {
  Arena arena;
  Arena::Scope scope(arena);
  UOp ast = parse(R"(
%0 = CONST index 10
%1 = CONST index 50
%2 = PARAM f32 #0 %0
%3 = RANGE index [0, 0, 0, 4] %0
%4 = INDEX f32 %2 %3
%5 = PARAM i64 #1 %0 %1
%6 = RANGE index [1, 0, 1, 8] %1
%7 = INDEX i64 %5 %3 %6
%8 = LOAD i64 %7
%9 = CAST index %8
%10 = CONST index 33
%11 = PARAM f32 #2 %10
%12 = INDEX f32 %11 %9
%13 = LOAD f32 %12
%14 = REDUCE f32 [0] %13 %6
%15 = STORE void %4 %14 %3
%16 = SINK void %15
)");
  MeasureSubject s = MeasureSubject::of(ast);
  ASSERT_EQ(s.slots.size(), 3u);
  EXPECT_TRUE(s.slots[0].written && !s.slots[0].read);
  EXPECT_TRUE(s.slots[1].read && !s.slots[1].written);
  EXPECT_EQ(s.slots[1].limit, 33);
  EXPECT_EQ(s.slots[2].limit, 0);
  EXPECT_EQ(s.slots[1].dims, (std::vector<i64>{10, 50}));
  EXPECT_EQ(s.terms, 50);
  EXPECT_FALSE(s.rounds);
  EXPECT_EQ(s.sizes, (std::vector<std::vector<i64>>{{}}));
}

// The largest, half of it and the smallest, as multiples where they must be; 0 is no size to be measured.
TEST(Subject, SizesOfVars) {
  Arena arena;
  Arena::Scope scope(arena);
  auto sizes = [](int least, int most, int multiple) {
    UOp ast = parse(str("%0 = CONST index ", least, "\n%1 = CONST index ", most, "\n%2 = CONST index ", multiple, R"(
%3 = VAR index "v0" %0 %1 %2
%4 = PARAM f32 #0 %3
%5 = RANGE index [0, 0, 0, 4] %3
%6 = INDEX f32 %4 %5
%7 = CONST f32 1
%8 = STORE void %6 %7 %5
%9 = SINK void %8
)"));
    return MeasureSubject::of(ast).sizes;
  };
  using Sizes = std::vector<std::vector<i64>>;
  EXPECT_EQ(sizes(1, 512, 1), (Sizes{{512}, {256}, {1}}));
  EXPECT_EQ(sizes(0, 7, 1), (Sizes{{7}, {3}, {1}}));
  EXPECT_EQ(sizes(16, 100, 4), (Sizes{{100}, {52}, {16}}));
  EXPECT_EQ(sizes(3, 100, 4), (Sizes{{100}, {52}, {4}}));
  EXPECT_EQ(sizes(6, 8, 2), (Sizes{{8}, {6}}));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "worker") return serve_jobs(driver::worker_job_bytes);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
