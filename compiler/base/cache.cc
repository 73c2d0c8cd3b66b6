#include "base/cache.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/note.h"
#include "base/settings.h"

namespace tg::cache {
namespace {

// Raised when what a table's values mean changes: older tables are left unread.
constexpr int kVersion = 1;

void make_folders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) mkdir(path.substr(0, at).c_str(), 0777);
}

class Database {
 public:
  static Database& instance() {
    static Database* d = new Database;  // never destroyed: threads may still use it at exit
    return *d;
  }

  std::optional<std::vector<u8>> get(const std::string& table, const Digest& key) {
    std::lock_guard guard(lock_);
    sqlite3_stmt* s = statement(table, str("select value from ", table, " where key=?"));
    if (!s) return {};
    sqlite3_bind_blob(s, 1, &key, sizeof key, SQLITE_STATIC);
    std::optional<std::vector<u8>> found;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
      const u8* p = static_cast<const u8*>(sqlite3_column_blob(s, 0));
      found.emplace(p, p + sqlite3_column_bytes(s, 0));
    } else if (rc != SQLITE_DONE) {
      give_up("read");
    }
    if (db_) sqlite3_reset(s);
    return found;
  }

  void put(const std::string& table, const Digest& key, std::span<const u8> value) {
    std::lock_guard guard(lock_);
    if (value.size() > 256u << 20) return;
    sqlite3_stmt* s = statement(table, str("insert or replace into ", table, " values (?,?)"));
    if (!s) return;
    sqlite3_bind_blob(s, 1, &key, sizeof key, SQLITE_STATIC);
    sqlite3_bind_blob(s, 2, value.empty() ? reinterpret_cast<const u8*>("") : value.data(), int(value.size()), SQLITE_STATIC);
    if (sqlite3_step(s) != SQLITE_DONE) give_up("written");
    if (db_) sqlite3_reset(s);
  }

 private:
  // A prepared statement on `table`, or null if the cache is off. Opens the file on first use, again when CACHEDB changes or after a fork
  // (a SQLite connection must not cross one).
  sqlite3_stmt* statement(const std::string& table, const std::string& sql) {
    std::string p = path();
    if (p != path_ || pid_ != getpid()) open(p);
    if (!db_) return nullptr;
    sqlite3_stmt*& s = statements_[sql];
    if (s) return s;
    std::string create = str("create table if not exists ", table, " (key blob primary key, value blob) without rowid");
    if (sqlite3_exec(db_, create.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK ||
        sqlite3_prepare_v2(db_, sql.c_str(), -1, &s, nullptr) != SQLITE_OK) {
      give_up("opened");
      return nullptr;
    }
    return s;
  }

  void open(const std::string& p) {
    if (pid_ == getpid()) close();
    statements_.clear();
    db_ = nullptr;
    path_ = p, pid_ = getpid();
    make_folders(p);
    if (sqlite3_open_v2(p.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK)
      return give_up("opened");
    sqlite3_busy_timeout(db_, 2000);
    // Losing the last entries to a power cut is fine for a cache; a torn file is not, and WAL keeps it whole.
    if (sqlite3_exec(db_, "pragma journal_mode=wal; pragma synchronous=off", nullptr, nullptr, nullptr) != SQLITE_OK) give_up("opened");
  }

  void give_up(const char* what) {
    warn("cache ", path_, " cannot be ", what, ": ", db_ ? sqlite3_errmsg(db_) : "out of memory", "; going on without it (CACHEDB names another file)");
    close();
  }

  void close() {
    for (auto& [sql, s] : statements_) sqlite3_finalize(s);
    statements_.clear();
    if (db_) sqlite3_close(db_);
    db_ = nullptr;
  }

  std::mutex lock_;
  sqlite3* db_ = nullptr;
  std::string path_;
  pid_t pid_ = 0;
  std::map<std::string, sqlite3_stmt*> statements_;
};

std::string table_name(std::string_view table) {
  TG_CHECK(!table.empty() && table.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == table.npos, "cache table \"", table, "\"");
  return str(table, "_", kVersion);
}

}  // namespace

std::optional<std::vector<u8>> get(std::string_view table, const Digest& key) { return Database::instance().get(table_name(table), key); }

void put(std::string_view table, const Digest& key, std::span<const u8> value) { Database::instance().put(table_name(table), key, value); }

std::string path() {
  std::string set = settings::CACHEDB();
  if (!set.empty()) return set;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg && *xdg) return str(xdg, "/tgaot/cache.db");
  const char* home = std::getenv("HOME");
  return str(home && *home ? home : "/tmp", "/.cache/tgaot/cache.db");
}

}  // namespace tg::cache
