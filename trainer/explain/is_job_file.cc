#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "trainer/explain.h"

namespace millrace::trainer {
namespace {

// The place behind the comment or the quoted text that begins at `at`.
size_t SkipText(std::string_view text, size_t at) {
  const char end = text[at] == '#' ? '\n' : text[at];
  for (++at; at < text.size() && text[at] != end; ++at) {
    if (text[at] == '\\' && end != '\n') ++at;
  }
  return at + 1;
}

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// True if the word at the front of `rest` is a field that tells a kind of file from all others.
using IsField = bool (*)(std::string_view rest, size_t word);

bool IsJobField(std::string_view rest, size_t word) {
  const std::string_view name = rest.substr(0, word);
  const size_t colon = rest.find_first_not_of(" \t", word);
  return (name == "model" || name == "train") && colon != rest.npos && rest[colon] == ':';
}

bool IsModelField(std::string_view rest, size_t word) {
  const size_t next = rest.find_first_not_of(" \t\r\n:", word);
  return rest.substr(0, word) == "layer" && next != rest.npos &&
         (rest[next] == '{' || rest[next] == '<' || rest[next] == '[');
}

bool HasField(std::string_view text, IsField is_field) {
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#' || c == '"' || c == '\'') {
      at = SkipText(text, at);
      continue;
    }
    depth += c == '{' || c == '<' ? 1 : (c == '}' || c == '>' ? -1 : 0);
    size_t word = 0;
    while (at + word < text.size() && IsWordCharacter(text[at + word])) ++word;
    if (depth == 0 && is_field(text.substr(at), word)) return true;
    at += word > 0 ? word : 1;
  }
  return false;
}

// Text that cannot be read has no field: the reader of plans tells why.
bool FileHasField(const std::string& path, IsField is_field) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();  // which throws nothing
  return HasField(text.str(), is_field);
}

}  // namespace

// Text that does not parse is a job's too, if it looks like one: the error is to be that of a job.
bool IsJobFile(const std::string& path) { return FileHasField(path, IsJobField); }

bool IsModelFile(const std::string& path) { return FileHasField(path, IsModelField); }

}  // namespace millrace::trainer
