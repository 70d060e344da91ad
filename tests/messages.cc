#include "tests/messages.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

namespace millrace::messages {
namespace {

constexpr std::string_view kFileName = "messages.golden";

bool Updates() {
  const char* const value = std::getenv("MILLRACE_UPDATE_MESSAGES");
  return value != nullptr && std::string_view(value) != "" && std::string_view(value) != "0";
}

// Codes are part of an interface, so they are not written by the way.
bool MayChange(std::string_view was, std::string_view is) {
  return was.substr(0, was.find(' ')) == is.substr(0, is.find(' ')) ||
         std::getenv("MILLRACE_UPDATE_MESSAGES") == std::string_view("codes");
}

std::string SourceDir() {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  return root == nullptr ? "" : root;
}

std::string Join(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (const std::string_view part : parts) joined += part;
  return joined;
}

std::string Replace(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (size_t at; (at = text.find(what)) != text.npos; text.remove_prefix(at + what.size())) {
    out.append(text.substr(0, at)).append(by);
  }
  return out.append(text);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// `text` with every "PREFIXnnn" that `accepts` the digits of as "PREFIX{name}".
template <typename Accepts>
std::string HideNumbers(std::string_view text, std::string_view prefix, std::string_view name,
                        const Accepts& accepts) {
  std::string out;
  while (true) {
    const size_t at = text.find(prefix);
    if (at == text.npos) return out.append(text);
    const size_t begin = at + prefix.size();
    const size_t end = std::find_if_not(text.begin() + begin, text.end(), IsDigit) - text.begin();
    const bool hides = end > begin && accepts(text.substr(begin, end - begin));
    out += Join({text.substr(0, begin),
                 hides ? Join({"{", name, "}"}) : std::string(text.substr(begin, end - begin))});
    text.remove_prefix(end);
  }
}

// `text` with every "FOLDER/NAME-XXXXXX" that mkdtemp made as "{tmp}".
std::string HideTempFolders(std::string_view text, std::string folder) {
  while (!folder.empty() && folder.back() == '/') folder.pop_back();
  constexpr size_t kDrawn = 6;  // characters that mkdtemp draws
  std::string out;
  while (true) {
    const size_t at = text.find(folder + "/");
    if (folder.empty() || at == text.npos) return out.append(text);
    size_t name = at + folder.size();
    while (name < text.size() && text[name] == '/') ++name;
    size_t end = name;
    while (end < text.size() && (IsNameCharacter(text[end]) || text[end] == '-' ||
                                 text[end] == '_' || text[end] == '.')) {
      ++end;
    }
    const std::string_view made = text.substr(name, end - name);
    const bool drawn = made.size() > kDrawn && !IsNameCharacter(made[made.size() - kDrawn - 1]) &&
                       std::ranges::all_of(made.substr(made.size() - kDrawn), IsNameCharacter);
    out +=
        Join({text.substr(0, at), drawn ? std::string_view("{tmp}") : text.substr(at, end - at)});
    text.remove_prefix(end);
  }
}

// "Suite.Case" without what tells the instances of a parameterised or typed test apart.
std::string CaseName(const ::testing::TestInfo& info) {
  std::string_view suite = info.test_suite_name(), name = info.name();
  // "Instance/Suite" of TEST_P, "Suite/0" of a typed test, "Instance/Suite/0" of both.
  const size_t last = suite.rfind('/');
  if (last != suite.npos && std::ranges::all_of(suite.substr(last + 1), IsDigit)) {
    suite = suite.substr(0, last);
  }
  suite.remove_prefix(suite.rfind('/') + 1);  // npos + 1 is 0
  return Join({suite, ".", name.substr(0, name.find('/'))});
}

bool HasInstances(const ::testing::TestInfo& info) {
  return info.type_param() != nullptr || info.value_param() != nullptr ||
         std::string_view(info.test_suite_name()).find('/') != std::string_view::npos;
}

std::string_view CaseOf(std::string_view id) { return id.substr(0, id.find('#')); }

// The messages of this program. One in a process.
class Recorder final : public ::testing::EmptyTestEventListener {
 public:
  static Recorder& Get() {
    // gtest owns it, and destroys it after the last test.
    static Recorder* const recorder = [] {
      auto* const made = new Recorder;
      ::testing::UnitTest::GetInstance()->listeners().Append(made);
      return made;
    }();
    return *recorder;
  }

  ::testing::AssertionResult Check(const char* file, const Message& message, std::string_view key) {
    const ::testing::TestInfo* const info = ::testing::UnitTest::GetInstance()->current_test_info();
    if (info == nullptr) return ::testing::AssertionFailure() << "EXPECT_MESSAGE outside a test";
    if (message.code == absl::StatusCode::kOk) {
      return ::testing::AssertionFailure() << "no error, hence no message";
    }
    if (SourceDir().empty()) {
      return ::testing::AssertionFailure()
             << "MILLRACE_SOURCE_DIR is not set, which names the folder of tests/";
    }
    if (key.find_first_of(" #\n") != key.npos || (!key.empty() && IsDigit(key[0]))) {
      return ::testing::AssertionFailure()
             << "a key has no space and no #, and is no number: " << key;
    }
    const std::lock_guard lock(mutex_);
    const std::string value = ValueOf({message.code, Hidden(message.text)});
    const std::string id =
        Join({CaseName(*info), "#", key.empty() ? std::to_string(++number_) : std::string(key)});
    Folder& folder = FolderFor(FolderOf(file));
    last_folder_ = &folder;
    const auto [claimed, is_new] = folder.claimed.try_emplace(id, value);
    const auto recorded = folder.recorded.find(id);
    if (Updates()) {
      if (recorded != folder.recorded.end() && !MayChange(recorded->second, value)) {
        return ::testing::AssertionFailure()
               << id << " has another code, which is no text\n  is  " << value << "\n  was "
               << recorded->second << "\n  MILLRACE_UPDATE_MESSAGES=codes writes it";
      }
      if (claimed->second == value) return ::testing::AssertionSuccess();
      return ::testing::AssertionFailure()
             << id << " has two texts; give each a key\n  " << claimed->second << "\n  " << value;
    }
    if (recorded != folder.recorded.end() && recorded->second == value) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure()
           << "message " << id << "\n  is  " << value << "\n  was "
           << (recorded == folder.recorded.end() ? "not there" : recorded->second) << "\n  in "
           << folder.path << "; MILLRACE_UPDATE_MESSAGES=1 writes it";
  }

  void Hide(std::string_view text, std::string_view name) {
    const std::lock_guard lock(mutex_);
    if (!text.empty()) hidden_.emplace_back(text, Join({"{", name, "}"}));
  }

 private:
  struct Folder {
    std::string path;
    Lines recorded;
    Lines claimed;                            // by this program
    std::set<std::string, std::less<>> done;  // cases all of whose lines are claimed
  };

  // Also when a program repeats its tests.
  void OnTestStart(const ::testing::TestInfo& /*info*/) override {
    const std::lock_guard lock(mutex_);
    number_ = 0;
    hidden_.clear();
    last_folder_ = nullptr;
  }

  void OnTestEnd(const ::testing::TestInfo& info) override {
    const std::lock_guard lock(mutex_);
    number_ = 0;
    hidden_.clear();
    if (last_folder_ == nullptr || !info.result()->Passed() || HasInstances(info)) return;
    Folder& folder = *std::exchange(last_folder_, nullptr);
    const std::string name = CaseName(info);
    folder.done.insert(name);
    if (Updates()) return;
    for (const auto& [id, value] : folder.recorded) {
      if (CaseOf(id) != name || folder.claimed.contains(id)) continue;
      ADD_FAILURE() << "no EXPECT_MESSAGE says " << id << " of " << folder.path;
    }
  }

  void OnTestProgramEnd(const ::testing::UnitTest& /*unit_test*/) override {
    const std::lock_guard lock(mutex_);
    if (!Updates()) return;
    for (const auto& [name, folder] : folders_) {
      const std::string wrong =
          UpdateFile(folder.path, folder.claimed, {folder.done.begin(), folder.done.end()});
      if (wrong.empty()) continue;
      std::fprintf(stderr, "%s: %s\n", folder.path.c_str(), wrong.c_str());
      std::_Exit(1);
    }
  }

  Folder& FolderFor(const std::string& name) {
    const auto [it, is_new] = folders_.try_emplace(name);
    Folder& folder = it->second;
    if (is_new) {
      folder.path = Join({SourceDir(), "/tests/", name, "/", kFileName});
      folder.recorded = ParseLines(ReadAll(folder.path));
    }
    return folder;
  }

  std::string Hidden(const std::string& text) const {
    std::string hidden = text;
    for (const auto& [what, name] : hidden_) hidden = Replace(hidden, what, name);
    return hidden;
  }

  std::mutex mutex_;
  int number_ = 0;  // of the last message without a key in this case
  std::vector<std::pair<std::string, std::string>> hidden_;
  std::map<std::string, Folder> folders_;
  Folder* last_folder_ = nullptr;  // of this case's messages
};

}  // namespace

Lines ParseLines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t space = line.find(' ');
    if (space == line.npos) continue;
    lines.emplace(line.substr(0, space), line.substr(space + 1));
  }
  return lines;
}

std::string FormatLines(const Lines& lines) {
  std::vector<std::tuple<std::string, int, std::string>> order;
  for (const auto& [id, value] : lines) {
    const std::string key = id.substr(std::min(id.find('#') + 1, id.size()));
    const bool is_number = !key.empty() && std::ranges::all_of(key, IsDigit);
    order.emplace_back(CaseOf(id), is_number ? std::atoi(key.c_str()) : 1 << 30, id);
  }
  std::ranges::sort(order);
  std::string text;
  for (const auto& [name, number, id] : order) {
    text += Join({id, " ", lines.at(id), "\n"});
  }
  return text;
}

std::string OneLine(std::string_view text) {
  std::string hidden = HideTempFolders(text, ::testing::TempDir());
  hidden = HideTempFolders(hidden, "/tmp");
  if (!SourceDir().empty()) hidden = Replace(hidden, SourceDir(), "{source}");
  const auto always = [](std::string_view) { return true; };
  for (const std::string_view host : {"127.0.0.1:", "localhost:", "[::1]:"}) {
    hidden = HideNumbers(hidden, host, "port", always);
  }
  const auto is_own = [own = std::to_string(getpid())](std::string_view n) { return n == own; };
  for (const std::string_view word : {"process ", "pid "}) {
    hidden = HideNumbers(hidden, word, "pid", is_own);
  }
  std::string line;
  for (const char c : hidden) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      line += c;
    }
  }
  return line;
}

std::string ValueOf(const Message& message) {
  const std::string code = message.code ? absl::StatusCodeToString(*message.code) : "-";
  return Join({code, " ", OneLine(message.text)});
}

std::string FolderOf(std::string_view file) {
  constexpr std::string_view kTests = "tests/";
  const size_t at = file.rfind(kTests);
  if (at == file.npos) return "";
  file.remove_prefix(at + kTests.size());
  return std::string(file.substr(0, file.find('/')));
}

std::string UpdateFile(const std::string& path, const Lines& ran,
                       const std::vector<std::string>& cases) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::flock(fd, LOCK_EX) != 0) return "cannot be opened and locked";
  const std::string before = ReadAll(path);
  Lines lines = ParseLines(before);
  const std::set<std::string, std::less<>> anew(cases.begin(), cases.end());
  std::erase_if(lines, [&](const auto& line) { return anew.contains(CaseOf(line.first)); });
  for (const auto& [id, value] : ran) lines[id] = value;
  const std::string text = FormatLines(lines);
  std::string wrong;
  if (text != before) {
    const bool written = ::ftruncate(fd, 0) == 0 &&
                         ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (!written) wrong = "cannot be written";
  }
  ::close(fd);
  return wrong;
}

::testing::AssertionResult Check(const char* file, const Message& message, std::string_view key) {
  return Recorder::Get().Check(file, message, key);
}

::testing::AssertionResult Check(const char* file, const Message& message, absl::StatusCode code,
                                 std::string_view key) {
  ::testing::AssertionResult result = Check(file, message, key);
  if (message.code == code) return result;
  return ::testing::AssertionFailure()
         << "the code is " << (message.code ? absl::StatusCodeToString(*message.code) : "not there")
         << "; expected " << absl::StatusCodeToString(code) << "\n"
         << result.message();
}

void HideInMessages(std::string_view text, std::string_view name) {
  Recorder::Get().Hide(text, name);
}

}  // namespace millrace::messages
