// Parent and child speak over one socket, file descriptor 3 in the child: a frame is a length and bytes. A job is the text of the settings
// and the payload, an answer a byte (1 good, 0 refused) and the payload or reason.
#include "base/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/progress.h"
#include "base/settings.h"

extern char** environ;

namespace tg {
namespace {

constexpr int kChildSocket = 3;
constexpr const char* kMark = "TGAOT_WORKER_SOCKET";  // set for children only
constexpr u64 kMostBytes = u64(1) << 32;

i64 now_ms() { return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool send_all(int fd, const void* data, size_t bytes) {
  const u8* p = static_cast<const u8*>(data);
  while (bytes) {
    ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= size_t(n);
  }
  return true;
}

bool receive_all(int fd, void* data, size_t bytes) {
  u8* p = static_cast<u8*>(data);
  while (bytes) {
    ssize_t n = recv(fd, p, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= size_t(n);
  }
  return true;
}

bool send_frame(int fd, const WorkBytes& b) {
  u64 bytes = b.size();
  return send_all(fd, &bytes, sizeof bytes) && send_all(fd, b.data(), b.size());
}

bool receive_frame(int fd, WorkBytes& b) {
  u64 bytes = 0;
  if (!receive_all(fd, &bytes, sizeof bytes) || bytes > kMostBytes) return false;
  b.resize(bytes);
  return receive_all(fd, b.data(), bytes);
}

void append_text(WorkBytes& b, std::string_view s) {
  u64 bytes = s.size();
  const u8* p = reinterpret_cast<const u8*>(&bytes);
  b.insert(b.end(), p, p + sizeof bytes);
  b.insert(b.end(), s.begin(), s.end());
}

// The line of a dying child that tells most: LLVM's fatal error if there is one, else its last line.
std::string last_words(const std::string& said) {
  size_t at = said.find("LLVM ERROR");
  if (at == said.npos) at = said.find("internal error");
  size_t end = at == said.npos ? said.find_last_not_of('\n') : said.find('\n', at);
  if (at == said.npos) {
    if (end == said.npos) return {};
    at = said.rfind('\n', end);
    at = at == said.npos ? 0 : at + 1;
    ++end;
  } else if (said.rfind('\n', at) != said.npos) {
    at = said.rfind('\n', at) + 1;
  } else {
    at = 0;
  }
  return said.substr(at, end == said.npos ? end : end - at);
}

}  // namespace

struct Workers::Child {
  pid_t pid = 0;  // 0: not running
  int socket = -1, errors = -1;
  i64 job = -1, deadline_ms = 0;
  std::string said;  // on stderr, during the job
};

Workers::Workers(i64 count, std::vector<std::string> command, std::string what)
    : command_(std::move(command)), what_(std::move(what)), children_(size_t(std::max<i64>(1, count))) {}

Workers::~Workers() {
  for (Child& c : children_) stop(c);
}

bool Workers::start(Child& c) {
  int sockets[2], errors[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return false;
  if (pipe2(errors, O_CLOEXEC) != 0) return close(sockets[0]), close(sockets[1]), false;
  std::vector<char*> argv;
  for (std::string& a : command_) argv.push_back(a.data());
  argv.push_back(nullptr);
  std::vector<std::string> strings;
  for (char** e = environ; *e; ++e)
    if (!std::string_view(*e).starts_with(kMark)) strings.push_back(*e);
  strings.push_back(str(kMark, "=", getpid()));
  std::vector<char*> env;
  for (std::string& s : strings) env.push_back(s.data());
  env.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 1);
  posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
  // dup2 onto itself would keep close-on-exec; descriptors 0 to 2 are taken, so only 3 itself can be meant.
  int own = sockets[1] == kChildSocket ? fcntl(sockets[1], F_DUPFD_CLOEXEC, kChildSocket + 1) : sockets[1];
  posix_spawn_file_actions_adddup2(&actions, own, kChildSocket);
  int rc = posix_spawnp(&c.pid, argv[0], &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  if (own != sockets[1]) close(own);
  close(sockets[1]);
  close(errors[1]);
  if (rc != 0) {
    close(sockets[0]);
    close(errors[0]);
    c = Child{};
    errno = rc;
    return false;
  }
  fcntl(errors[0], F_SETFL, O_NONBLOCK);
  c.socket = sockets[0], c.errors = errors[0], c.job = -1;
  c.said.clear();
  return true;
}

void Workers::stop(Child& c) {
  if (!c.pid) return;
  close(c.socket);
  close(c.errors);
  // An idle child leaves by itself when its socket closes; one that is busy is not waited for.
  if (c.job >= 0) kill(c.pid, SIGKILL);
  while (waitpid(c.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  c = Child{};
}

std::vector<Result<WorkBytes>> Workers::run(std::span<const WorkBytes> jobs, f64 timeout_s, const std::function<void(i64)>& done) {
  std::vector<Result<WorkBytes>> answers(jobs.size(), Result<WorkBytes>::no("not run"));
  std::string settings_text = settings::serialize();
  i64 next = 0, finished = 0, total = i64(jobs.size());

  auto drain = [](Child& c) {
    char buf[4096];
    for (ssize_t n; (n = read(c.errors, buf, sizeof buf)) > 0;) c.said.append(buf, size_t(n));
  };
  auto finish = [&](Child& c, Result<WorkBytes> answer, bool show) {
    drain(c);
    if (show && !c.said.empty()) {
      clear_progress();
      std::fwrite(c.said.data(), 1, c.said.size(), stderr);
    }
    c.said.clear();
    i64 job = std::exchange(c.job, -1);
    answers[size_t(job)] = std::move(answer);
    ++finished;
    if (done) done(job);
  };
  // The child is gone or must go; its job is refused with what it said last.
  auto lose = [&](Child& c, const std::string& timeout) {
    std::string how = timeout;
    if (timeout.empty()) {
      int status = 0;
      close(c.socket);
      c.socket = open("/dev/null", O_RDWR | O_CLOEXEC);
      while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) {
      }
      how = WIFSIGNALED(status) ? str("died of signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")") : str("ended with exit code ", WEXITSTATUS(status));
    } else {
      kill(c.pid, SIGKILL);
      while (waitpid(c.pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    drain(c);
    std::string words = last_words(c.said);
    finish(c, Result<WorkBytes>::no(str("the ", what_, " ", how, words.empty() ? "" : ": ", words)), settings::DEBUG() >= 2);
    close(c.socket);
    close(c.errors);
    c = Child{};
  };

  while (finished < total) {
    for (Child& c : children_) {
      while (next < total && c.job < 0) {
        bool fresh = !c.pid;
        if (fresh && !start(c)) fail("a ", what_, " cannot be started: ", command_[0], ": ", std::strerror(errno), "; PARALLEL=0 compiles in this process");
        WorkBytes frame;
        append_text(frame, settings_text);
        frame.insert(frame.end(), jobs[size_t(next)].begin(), jobs[size_t(next)].end());
        c.job = next++;
        c.deadline_ms = now_ms() + i64(timeout_s * 1000);
        if (send_frame(c.socket, frame)) break;
        lose(c, "");
      }
    }
    std::vector<pollfd> fds;
    std::vector<Child*> who;
    i64 until = now_ms() + 3'600'000;
    for (Child& c : children_) {
      if (c.job < 0) continue;
      fds.push_back({c.socket, POLLIN, 0});
      fds.push_back({c.errors, POLLIN, 0});
      who.push_back(&c);
      until = std::min(until, c.deadline_ms);
    }
    if (who.empty()) continue;
    int n = poll(fds.data(), nfds_t(fds.size()), int(std::clamp<i64>(until - now_ms(), 0, 3'600'000)));
    if (n < 0 && errno != EINTR) fail("poll of compile workers: ", std::strerror(errno));
    for (size_t i = 0; i < who.size(); ++i) {
      Child& c = *who[i];
      if (fds[2 * i + 1].revents & POLLIN) drain(c);
      if (fds[2 * i].revents) {
        WorkBytes answer;
        if (!receive_frame(c.socket, answer) || answer.empty()) {
          lose(c, "");
          continue;
        }
        bool good = answer[0] == 1;
        answer.erase(answer.begin());
        finish(c, good ? Result<WorkBytes>(std::move(answer)) : Result<WorkBytes>::no(std::string(answer.begin(), answer.end())), true);
      } else if (now_ms() >= c.deadline_ms) {
        lose(c, str("did not answer within ", timeout_s, " s"));
      }
    }
  }
  return answers;
}

int serve_jobs(const std::function<Result<WorkBytes>(std::span<const u8>)>& job) {
  if (!std::getenv(kMark)) fail("worker: this verb is started by tgaot itself, for its own use");
  // Goes with its parent, also when that is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Ctrl-C at a terminal reaches children too; what becomes of them is the parent's to say.
  signal(SIGINT, SIG_IGN);
  WorkBytes frame;
  while (receive_frame(kChildSocket, frame)) {
    u64 settings_bytes = 0;
    TG_CHECK(frame.size() >= sizeof settings_bytes, "worker: short job");
    std::memcpy(&settings_bytes, frame.data(), sizeof settings_bytes);
    TG_CHECK(settings_bytes <= frame.size() - sizeof settings_bytes, "worker: short job");
    const char* text = reinterpret_cast<const char*>(frame.data()) + sizeof settings_bytes;
    WorkBytes answer;
    auto refuse = [&](std::string_view why) {
      answer.assign(1, 0);
      answer.insert(answer.end(), why.begin(), why.end());
    };
    try {
      settings::restore({text, settings_bytes});
      Result<WorkBytes> r = job(std::span<const u8>(frame).subspan(sizeof settings_bytes + settings_bytes));
      if (r) {
        answer.assign(1, 1);
        answer.insert(answer.end(), r->begin(), r->end());
      } else {
        refuse(r.why());
      }
    } catch (const Error& e) {
      refuse(e.what());
    }
    std::fflush(nullptr);
    if (!send_frame(kChildSocket, answer)) return 1;
  }
  return 0;
}

}  // namespace tg
