// Files that the system does not let anybody read: whatever names them (a plan, a list, a folder),
// and whatever reads them, the error has the system's reason and the file's path. Nothing is taken
// for empty, for missing or for damaged.
#include <gmock/gmock.h>

#include <cstring>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"
#include "readers/image_source.h"
#include "readers/verify.h"
#include "tests/failing_files.h"
#include "tests/readers/image_fixtures.h"
#include "tests/readers/record_test_util.h"
#include "tests/temp_files.h"

namespace millrace::pipeline {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Fault {
  Failing call;
  int error_number;
  absl::StatusCode code;
};
const Fault kFaults[] = {
    {Failing::kLook, EACCES, absl::StatusCode::kPermissionDenied},
    {Failing::kLook, EIO, absl::StatusCode::kUnknown},
    {Failing::kLook, ELOOP, absl::StatusCode::kFailedPrecondition},
    {Failing::kLook, ENAMETOOLONG, absl::StatusCode::kInvalidArgument},
    {Failing::kLook, ESTALE, absl::StatusCode::kAborted},
    {Failing::kOpen, EACCES, absl::StatusCode::kPermissionDenied},
    {Failing::kOpen, EIO, absl::StatusCode::kUnknown},
    {Failing::kOpen, ESTALE, absl::StatusCode::kAborted},
    {Failing::kRead, EACCES, absl::StatusCode::kPermissionDenied},
    {Failing::kRead, EIO, absl::StatusCode::kUnknown},
    {Failing::kRead, ESTALE, absl::StatusCode::kAborted},
};

std::string NameOf(const Fault& fault) {
  constexpr const char* kCalls[] = {"look", "open", "read"};
  return absl::StrCat(kCalls[static_cast<int>(fault.call)], ": ",
                      std::strerror(fault.error_number));
}

void ExpectSaid(const absl::Status& status, const Fault& fault, const std::string& path) {
  EXPECT_EQ(status.code(), fault.code) << status;
  const std::string text(status.message());
  EXPECT_THAT(text, AllOf(HasSubstr(path), HasSubstr(std::strerror(fault.error_number))));
  for (const char* wrong : {"empty", "nearest", "no file", "no .jpg", "did you mean", "damaged"}) {
    EXPECT_THAT(text, Not(HasSubstr(wrong)));
  }
}

class UnreadableFilesTest : public testing::Test {
 protected:
  UnreadableFilesTest() {
    for (const char* name : {"a.tfrecord", "b.tfrecord"}) {
      WriteFile(folder_ / name, readers::Frames({"12345678", "abcdefgh", "ABCDEFGH"}));
    }
    WriteFile(folder_ / "a.idx", "0 24\n24 24\n48 24\n");
    WriteFile(folder_ / "rows.csv", "x,y\n1,2\n3,4\n");
    WriteFile(folder_ / "lines.txt", "a\nb\n");
    WriteFile(folder_ / "words.txt", "1\n2\n");
    WriteFile(folder_ / "classes.txt", "cat\ndog\n");
    WriteFile(folder_ / "list.txt", "a.tfrecord\n");
    WriteFile(folder_ / "plan.pbtxt", Records("a.tfrecord"));
    for (const char* name : {"in/cat/1.png", "in/dog/2.png"}) {
      WriteFile(folder_ / name, readers::MakePng(2, 2));
    }
    readers::WriteTar(folder_ / "a.tar", {{"1.txt", "one"}, {"2.txt", "two"}});
    readers::WriteTar(folder_ / "images.tar", {{"cat/1.png", readers::MakePng(2, 2)},
                                               {"dog/2.png", readers::MakePng(2, 2)}});
  }

  // A plan of all records of `files`.
  std::string Records(const std::string& files, const std::string& options = "") const {
    const bool is_list = files.starts_with("list:");
    const std::string names =
        is_list ? "list:" + (folder_ / files.substr(5)) : std::string(folder_ / files);
    return absl::StrCat("stage { tfrecord { files: '", names, "' ", options, " } }\n",
                        "stage { decode_raw { shape: 8 } }\nstage { batch { size: 2 } }\n");
  }
  std::string Samples(const std::string& source, const std::string& maps = "") const {
    return absl::StrCat("stage { ", source, " }\n", maps, "stage { padded_batch { size: 2 } }\n");
  }
  std::string Images(const std::string& options = "") const {
    return Samples(absl::StrCat("image_folder { path: '", folder_ / "in", "' ", options, " }"),
                   "stage { decode_image { field: 'record' } }\n");
  }

  // The error of the stream of a plan, read to its end.
  absl::Status Drain(const absl::StatusOr<Plan>& plan) const {
    if (!plan.ok()) return plan.status();
    OpenOptions options;
    options.index_folder = folder_ / "index";
    const auto pipeline = Pipeline::Open(*plan, *MakeContext(), options);
    if (!pipeline.ok()) return pipeline.status();
    while (true) {
      const auto batch = (*pipeline)->Next();
      if (!batch.ok() || !batch->has_value()) return batch.status();
    }
  }

  // Each way in which `file` can fail is the error of the plan.
  void ExpectSaidOf(const std::string& file, const std::string& plan) const {
    for (const Fault& fault : kFaults) {
      SCOPED_TRACE(NameOf(fault) + " of " + file);
      std::filesystem::remove_all(folder_ / "index");
      const WhileFailing failing({fault.call, fault.error_number, folder_ / file});
      ExpectSaid(Drain(Plan::FromText(plan, "p")), fault, folder_ / file);
    }
    EXPECT_TRUE(Drain(Plan::FromText(plan, "p")).ok()) << Drain(Plan::FromText(plan, "p"));
  }

  // The same of a file that is looked at, or read, by `work`.
  template <typename Work>
  void ExpectSaidBy(const Work& work, const std::string& file) const {
    for (const Fault& fault : kFaults) {
      SCOPED_TRACE(NameOf(fault) + " of " + file);
      const WhileFailing failing({fault.call, fault.error_number, folder_ / file});
      ExpectSaid(work(), fault, folder_ / file);
    }
    EXPECT_TRUE(work().ok()) << work();
  }

  const TempFolder folder_;
};

// S-SOURCE-12.
TEST_F(UnreadableFilesTest, ShardsOfATfRecord) {
  ExpectSaidOf("a.tfrecord", Records("a.tfrecord"));
  ExpectSaidOf("b.tfrecord", Records("?.tfrecord"));
  ExpectSaidOf("a.tfrecord", Records("{a,b}.tfrecord"));
}

TEST_F(UnreadableFilesTest, IndexesOfDali) {
  const std::string option = absl::StrCat("dali_index: '", folder_ / "a.idx", "'");
  ExpectSaidOf("a.idx", Records("a.tfrecord", option));
}

TEST_F(UnreadableFilesTest, ContainersBesideTfRecord) {
  ExpectSaidOf("a.tar", Samples(absl::StrCat("tar { files: '", folder_ / "a.tar", "' }"),
                                "stage { parse_tar { feature { key: 'txt' dtype: BYTES } } }\n"));
  ExpectSaidOf("lines.txt", Samples(absl::StrCat("text { files: '", folder_ / "lines.txt", "' }")));
  ExpectSaidOf("rows.csv",
               Samples(absl::StrCat("csv { files: '", folder_ / "rows.csv", "' header: true }"),
                       "stage { parse_csv { feature { key: 'x' dtype: INT64 } feature { key: 'y' "
                       "dtype: INT64 } } }\n"));
}

// S-SOURCE-7.
TEST_F(UnreadableFilesTest, FoldersOfImages) {
  for (const char* file : {"in", "in/dog", "in/dog/2.png"}) ExpectSaidOf(file, Images());
  ExpectSaidOf("classes.txt",
               Images(absl::StrCat("classes_file: '", folder_ / "classes.txt", "'")));
}

// S-SOURCE-7. Without a name that tells what it is, such a file may be an image.
TEST_F(UnreadableFilesTest, AFileInAFolderOfImagesWithoutATellingName) {
  WriteFile(folder_ / "in/dog/3", readers::MakePng(2, 2));
  for (const Fault& fault : kFaults) {
    if (fault.call == Failing::kLook) continue;  // the folder tells that it is a file
    SCOPED_TRACE(NameOf(fault));
    const WhileFailing failing({fault.call, fault.error_number, folder_ / "in/dog/3"});
    std::string warned;
    readers::ImageLabelOptions options;
    options.warn = [&](std::string_view text) { warned = text; };
    EXPECT_TRUE(readers::OpenImageFolder(folder_ / "in", options).ok());
    EXPECT_THAT(warned, HasSubstr(absl::StrCat("dog/3 (", std::strerror(fault.error_number), ")")));
  }
}

TEST_F(UnreadableFilesTest, ListsOfFiles) { ExpectSaidOf("list.txt", Records("list:list.txt")); }

TEST_F(UnreadableFilesTest, FilesThatListsName) {
  ExpectSaidOf("a.tfrecord", Records("list:list.txt"));
}

// S-FIELD-5.
TEST_F(UnreadableFilesTest, Vocabularies) {
  const std::string words = absl::StrCat("stage { vocabulary { field: 'record' file: '",
                                         folder_ / "words.txt", "' default_id: 0 } }\n");
  ExpectSaidOf("words.txt",
               Samples(absl::StrCat("text { files: '", folder_ / "lines.txt", "' }"), words));
}

TEST_F(UnreadableFilesTest, Plans) {
  ExpectSaidBy([&] { return Drain(Plan::FromFile(folder_ / "plan.pbtxt")); }, "plan.pbtxt");
}

TEST_F(UnreadableFilesTest, NamesOfClasses) {
  ExpectSaidBy([&] { return readers::ReadClassNames(folder_ / "classes.txt").status(); },
               "classes.txt");
}

// What a conversion reads.
TEST_F(UnreadableFilesTest, ImagesThatAreConverted) {
  const auto read = [](absl::StatusOr<std::unique_ptr<readers::ImageSource>> source) {
    absl::Status status = source.status();
    for (uint64_t i = 0; status.ok() && i < (*source)->num_images(); ++i) {
      status = (*source)->Read(i).status();
    }
    return status;
  };
  for (const char* file : {"in", "in/dog", "in/dog/2.png"}) {
    ExpectSaidBy([&] { return read(readers::OpenImageFolder(folder_ / "in", {})); }, file);
  }
  ExpectSaidBy([&] { return read(readers::OpenImageTar(folder_ / "images.tar", {})); },
               "images.tar");
}

// What `records verify` says: the file is not damaged, it cannot be read.
TEST_F(UnreadableFilesTest, FilesThatAreVerified) {
  const auto verify = [&](const std::string& name, const std::string& file) {
    for (const Fault& fault : kFaults) {
      SCOPED_TRACE(NameOf(fault) + " of " + file);
      const WhileFailing failing({fault.call, fault.error_number, folder_ / file});
      const auto report = readers::Verify(std::vector<std::string>{folder_ / name});
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->num_damaged, 0u);
      ASSERT_EQ(report->unreadable.size(), 1u);
      ExpectSaid(absl::Status(fault.code, report->unreadable[0].message), fault, folder_ / file);
    }
  };
  for (const char* file : {"a.tfrecord", "a.tar", "lines.txt", "rows.csv"}) verify(file, file);
  for (const char* file : {"in", "in/dog", "in/dog/2.png"}) verify("in", file);
}

// An error behind the front of a file is none of the record that lies there.
TEST_F(UnreadableFilesTest, AnErrorInTheMiddleIsNoDamage) {
  constexpr off_t kMiddle = 3 << 20;
  const std::vector<std::string> records(6000, std::string(1000, 'r'));
  WriteFile(folder_ / "long.tfrecord", readers::Frames(records));
  std::string lines;
  for (const std::string& record : records) lines += record + "\n";
  for (const char* name : {"long.txt", "long.csv"}) WriteFile(folder_ / name, lines);
  readers::WriteTar(folder_ / "long.tar",
                    {{"1.txt", lines.substr(0, 2 << 20)}, {"2.txt", lines.substr(0, 3 << 20)}});
  for (const char* file : {"long.tfrecord", "long.txt", "long.csv", "long.tar"}) {
    SCOPED_TRACE(file);
    const WhileFailing failing({Failing::kRead, EIO, folder_ / file, kMiddle});
    const auto report = readers::Verify(std::vector<std::string>{folder_ / file});
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_damaged, 0u) << report->places[0].message;
    ASSERT_EQ(report->unreadable.size(), 1u);
    EXPECT_THAT(report->unreadable[0].message,
                AllOf(HasSubstr(folder_ / file), HasSubstr("Input/output error")));
  }
}

}  // namespace
}  // namespace millrace::pipeline
