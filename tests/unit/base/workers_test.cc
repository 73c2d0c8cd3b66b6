#include "base/workers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/settings.h"

using namespace tg;

namespace {

WorkBytes bytes(std::string_view s) { return {s.begin(), s.end()}; }
std::string text(const WorkBytes& b) { return {b.begin(), b.end()}; }

// What the children of these tests do with a job.
Result<WorkBytes> act(std::span<const u8> job) {
  std::string s(job.begin(), job.end());
  if (s == "die") std::abort();
  if (s == "fatal") {
    std::fprintf(stderr, "some noise\nLLVM ERROR: Cannot select: t5\nmore noise\n");
    std::_Exit(1);
  }
  if (s == "hang") pause();
  if (s == "no") return Result<WorkBytes>::no("too odd");
  if (s == "throw") fail("bad ", s);
  if (s == "debug") return bytes(str(settings::DEBUG()));
  return bytes(s + "!");
}

// The children of these tests are this program; they serve before any test runs.
std::vector<std::string> child_command() { return {"/proc/self/exe"}; }
[[maybe_unused]] const bool g_not_a_child = [] {
  if (std::getenv("TGAOT_WORKER_SOCKET")) _exit(serve_jobs(act));
  return true;
}();

}  // namespace

TEST(WorkerPool, AnswersComeInTheOrderOfTheJobs) {
  Workers pool(2, child_command());
  std::vector<WorkBytes> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(bytes(str("job", i)));
  auto answers = pool.run(jobs, 30);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(text(*answers[i]), str("job", i, "!"));
}
TEST(WorkerPool, LargeJobsAndAnswersPass) {
  Workers pool(1, child_command());
  WorkBytes big(3'000'000, 'x');
  auto answers = pool.run(std::vector<WorkBytes>{big, {}}, 30);
  EXPECT_EQ(answers[0]->size(), 3'000'001u);
  EXPECT_EQ(text(*answers[1]), "!");
}
TEST(WorkerPool, RefusalsAndErrorsAreReasons) {
  Workers pool(2, child_command());
  auto answers = pool.run(std::vector<WorkBytes>{bytes("no"), bytes("throw"), bytes("a")}, 30);
  EXPECT_EQ(answers[0].why(), "too odd");
  EXPECT_EQ(answers[1].why(), "bad throw");
  EXPECT_EQ(text(*answers[2]), "a!");
}
TEST(WorkerPool, ACrashIsTheRefusalOfItsJobOnly) {
  Workers pool(1, child_command());
  auto answers = pool.run(std::vector<WorkBytes>{bytes("a"), bytes("die"), bytes("b"), bytes("fatal"), bytes("c")}, 30);
  EXPECT_EQ(text(*answers[0]), "a!");
  EXPECT_NE(answers[1].why().find("died of signal 6"), std::string::npos) << answers[1].why();
  EXPECT_EQ(text(*answers[2]), "b!");
  EXPECT_EQ(answers[3].why(), "the compile worker ended with exit code 1: LLVM ERROR: Cannot select: t5");
  EXPECT_EQ(text(*answers[4]), "c!");
}
TEST(WorkerPool, AJobThatHangsIsRefused) {
  Workers pool(1, child_command());
  auto answers = pool.run(std::vector<WorkBytes>{bytes("hang"), bytes("a")}, 0.3);
  EXPECT_EQ(answers[0].why(), "the compile worker did not answer within 0.3 s");
  EXPECT_EQ(text(*answers[1]), "a!");
}
TEST(WorkerPool, JobsRunUnderTheCallersSettings) {
  Workers pool(1, child_command());
  std::vector<WorkBytes> job{bytes("debug")};
  Context c{{settings::DEBUG, 1}};
  EXPECT_EQ(text(*pool.run(job, 30)[0]), "1");
  Context d{{settings::DEBUG, 0}};
  EXPECT_EQ(text(*pool.run(job, 30)[0]), "0");
}
TEST(WorkerPool, AProgramThatIsMissingIsAnError) {
  Workers pool(1, {"/no/such/program"});
  EXPECT_THROW((void)pool.run(std::vector<WorkBytes>{bytes("a")}, 30), Error);
}
TEST(WorkerPool, ServingWithoutAParentIsAnError) { EXPECT_THROW(serve_jobs(act), Error); }
