#include "trainer/backend/cuda/tuning/plan_cache.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/status.h"
#include "tests/messages.h"
#include "tests/temp_folder.h"

namespace millrace::trainer::cuda {
namespace {

using ::testing::HasSubstr;

constexpr char kKey[] = "NVIDIA H200, cuDNN 9.19.0";

PlanBook BookOf(const std::string& product, const std::string& plan) {
  PlanBook book(kKey);
  book.Set(product, plan);
  return book;
}

std::string Read(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(PlanBookTest, ATextIsReadBack) {
  PlanBook book = BookOf("forward, [1, 2]", "eng1_k2=4");
  book.Set("weight gradient", "eng0");
  book.Set("weight gradient", "eng7");
  const std::string text = book.ToText();
  EXPECT_THAT(text, HasSubstr("\neng1_k2=4\tforward, [1, 2]\neng7\tweight gradient\n"));
  const absl::StatusOr<PlanBook> read = PlanBook::FromText(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, book);
  EXPECT_EQ(read->key(), kKey);
  EXPECT_EQ(read->Find("weight gradient"), "eng7");
  EXPECT_EQ(read->Find("another"), std::nullopt);
  EXPECT_EQ(*PlanBook::FromText(PlanBook(kKey).ToText()), PlanBook(kKey));
}

TEST(PlanBookTest, WhatIsNotWholeIsRefused) {
  const std::string text = BookOf("forward", "eng1").ToText();
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(PlanBook::FromText(text.substr(0, i)).status())) << i;
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_TRUE(absl::IsInvalidArgument(PlanBook::FromText(changed).status())) << i;
  }
}

TEST(PlanCacheTest, PlansAreKeptByTheirDevice) {
  const TempFolder folder;
  const PlanCache cache(folder / "new", kKey);
  EXPECT_EQ(*cache.Load(), PlanBook(kKey)) << "there is no file";
  ASSERT_TRUE(cache.Store(BookOf("a", "eng1")).ok());
  ASSERT_TRUE(cache.Store(BookOf("b", "eng2")).ok());
  PlanBook both = BookOf("a", "eng1");
  both.Set("b", "eng2");
  EXPECT_EQ(*cache.Load(), both);
  EXPECT_EQ(*PlanCache(folder / "new", "NVIDIA H200, cuDNN 9.20.0").Load(),
            PlanBook("NVIDIA H200, cuDNN 9.20.0"));
  EXPECT_EQ(std::filesystem::path(cache.path()).parent_path(), folder / "new");
}

TEST(PlanCacheTest, AFileWithoutPlansIsNamedAndReplaced) {
  const TempFolder folder;
  const PlanCache cache(folder.path(), kKey);
  ASSERT_TRUE(cache.Store(BookOf("a", "eng1")).ok());
  const std::string whole = Read(cache.path());
  for (const std::string& text : {std::string(), whole.substr(0, 40), PlanBook("other").ToText()}) {
    std::ofstream(cache.path()) << text;
    const absl::Status status = cache.Load().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr(cache.path()));
  }
  EXPECT_MESSAGE(cache.Load().status(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(cache.Store(BookOf("b", "eng2")).ok());
  EXPECT_EQ(*cache.Load(), BookOf("b", "eng2"));
}

TEST(PlanCacheTest, AFolderThatCannotBeIsAnError) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const PlanCache cache(folder / "file", kKey);
  EXPECT_EQ(*cache.Load(), PlanBook(kKey));
  EXPECT_FALSE(cache.Store(BookOf("a", "eng1")).ok());
}

}  // namespace
}  // namespace millrace::trainer::cuda
