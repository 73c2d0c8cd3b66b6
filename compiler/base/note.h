// One-line remarks on stderr, each distinct text once a process: "tgaot: note: dimension N of input x was not named, it becomes 1".
#pragma once
#include <string>

#include "base/error.h"

namespace tg {

void note_once(const std::string& text);
void warn_once(const std::string& text);
template <class... A>
void note(const A&... parts) {
  note_once(str(parts...));
}
template <class... A>
void warn(const A&... parts) {
  warn_once(str(parts...));
}

}  // namespace tg
