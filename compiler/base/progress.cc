// Progress lines and notes share one lock, so that a note never lands in the middle of a line.
#include "base/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>

#include "base/note.h"
#include "base/settings.h"

namespace tg {
namespace {

std::mutex& lock() {
  static std::mutex m;
  return m;
}
bool g_line_on_terminal = false;

i64 now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
bool on_terminal() {
  static const bool yes = isatty(2);
  return yes;
}

void clear_locked() {
  if (!g_line_on_terminal) return;
  std::fputs("\r\033[K", stderr);
  g_line_on_terminal = false;
}

void say(const char* prefix, const std::string& text) {
  static std::set<std::string>* said = new std::set<std::string>;
  std::lock_guard guard(lock());
  if (!said->insert(text).second) return;
  clear_locked();
  std::fprintf(stderr, "tgaot: %s%s\n", prefix, text.c_str());
}

}  // namespace

void note_once(const std::string& text) { say("note: ", text); }
void warn_once(const std::string& text) { say("warning: ", text); }

void clear_progress() {
  std::lock_guard guard(lock());
  clear_locked();
}

Progress::Progress(std::string what, i64 total) : what_(std::move(what)), total_(total), began_ns_(now_ns()) {}

void Progress::draw(std::string_view detail) {
  std::string line = total_ ? str(what_, " ", done_, "/", total_) : str(what_, " ", done_);
  if (!detail.empty()) line += str("  ", detail);
  if (line.size() > 78) line.resize(78);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  g_line_on_terminal = shown_ = true;
}

void Progress::step(std::string_view detail, i64 n) {
  std::lock_guard guard(lock());
  done_ += n;
  if (!on_terminal()) return;
  i64 t = now_ns();
  if (t - began_ns_ < 200'000'000 || t - drawn_ns_ < 100'000'000) return;
  drawn_ns_ = t;
  draw(detail);
}

Progress::~Progress() {
  std::lock_guard guard(lock());
  if (shown_) clear_locked();
  if (settings::DEBUG() >= 1) std::fprintf(stderr, "%s: %lld in %.1f ms\n", what_.c_str(), (long long)done_, (now_ns() - began_ns_) * 1e-6);
}

}  // namespace tg
