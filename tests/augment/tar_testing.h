#ifndef MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_
#define MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/tar_files.h"

namespace millrace::augment::testing {

// What ReadTarFiles reads, without the names; an archive that it cannot read fails the test.
inline std::vector<std::string> ReadTar(const std::string& path) {
  auto files = ReadTarFiles(path);
  EXPECT_TRUE(files.has_value()) << path;
  std::vector<std::string> contents;
  if (!files) return contents;
  for (TarFile& file : *files) contents.push_back(std::move(file.bytes));
  return contents;
}

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_TAR_TESTING_H_
