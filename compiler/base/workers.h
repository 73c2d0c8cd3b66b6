// A pool of child processes that answer jobs: bytes in, bytes or a reason out. What may crash, hang or leak (a compiler as a library) runs
// there; a child that dies is the refusal of its job, with the child's last words, and is started anew.
//
//   Workers pool(settings::PARALLEL(), {"/proc/self/exe", "worker"});
//   std::vector<Result<WorkBytes>> answers = pool.run(jobs, 60);
//
// In the child: int main(...) { ...; return serve_jobs(compile_one); }
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tg {

using WorkBytes = std::vector<u8>;

class Workers {
 public:
  // Children are started when there is work for them, at most `count` (at least 1), and live as long as the pool.
  // what: how refusals call a child.
  Workers(i64 count, std::vector<std::string> command, std::string what = "compile worker");
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // All jobs, answers in their order. A job runs under the settings that hold in the calling thread. timeout_s: of one job; then its child
  // is killed and the job refused. done(i) is called as answer i comes in, in any order. What children write on stderr during a job comes
  // out on ours when it is done. One thread at a time.
  std::vector<Result<WorkBytes>> run(std::span<const WorkBytes> jobs, f64 timeout_s, const std::function<void(i64)>& done = {});

 private:
  struct Child;
  bool start(Child& c);
  void stop(Child& c);
  std::vector<std::string> command_;
  std::string what_;
  std::vector<Child> children_;
};

// The child's side: answers jobs from the parent until it goes away, then returns the exit code for main. An Error that `job` throws becomes
// a refusal. Not for a process that a Workers pool did not start: that is an Error.
int serve_jobs(const std::function<Result<WorkBytes>(std::span<const u8>)>& job);

}  // namespace tg
