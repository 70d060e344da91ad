#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "pipeline/stages/row.h"

// Sources of files.

namespace millrace::pipeline {
namespace {

using proto::Stage;

constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;  // unless the plan says otherwise
constexpr uint64_t kMaxRecord = uint64_t{1} << 40;

template <typename Source>
void FillSource(Source* source) {
  Default(source->mutable_compression(), "auto");
  if (source->max_record_bytes() == 0) source->set_max_record_bytes(kMaxRecordBytes);
}

void FillTfRecord(proto::TfRecord* source) {
  FillSource(source);
  Default(source->mutable_io(), "pread");
}

void FillFixedLength(proto::FixedLength* source) { Default(source->mutable_compression(), "auto"); }

void FillCsv(proto::Csv* csv) {
  FillSource(csv);
  Default(csv->mutable_delimiter(), ",");
}

void FillImageFolder(proto::ImageFolder* folder) {
  if (folder->max_record_bytes() == 0) folder->set_max_record_bytes(kMaxRecordBytes);
}

// `word` is one of `known`.
absl::Status IsKnown(const OptionsChecker& check, std::string_view field, const std::string& word,
                     const std::vector<std::string>& known) {
  if (std::ranges::find(known, word) != known.end()) return absl::OkStatus();
  return check.Error(field, absl::StrCat(" \"", word, "\" is not known", DidYouMean(word, known)));
}

template <typename Files>
absl::Status CheckFiles(const OptionsChecker& check, const Files& source) {
  if (source.files().empty()) {
    return check.Error("files", " is empty; name at least one file or pattern");
  }
  for (int i = 0; i < source.files_size(); ++i) {
    if (source.files(i).empty()) return check.Error("files", " has an empty name", i);
  }
  return IsKnown(check, "compression", source.compression(),
                 {"auto", "none", "gzip", "zlib", "zstd"});
}

template <typename Files>
absl::Status CheckSource(const OptionsChecker& check, const Files& source) {
  MILLRACE_RETURN_IF_ERROR(CheckFiles(check, source));
  return check.InRange("max_record_bytes", source.max_record_bytes(), 1, kMaxRecord);
}

absl::Status CheckDaliIndex(const OptionsChecker& check, const proto::TfRecord& source) {
  if (source.dali_index().empty()) return absl::OkStatus();
  for (int i = 0; i < source.dali_index_size(); ++i) {
    if (source.dali_index(i).empty()) return check.Error("dali_index", " has an empty name", i);
  }
  if (source.skip_crc()) {
    return check.Error("skip_crc",
                       " cannot stand beside dali_index: the checksums are what tells a wrong one");
  }
  if (source.compression() == "auto" || source.compression() == "none") return absl::OkStatus();
  return check.Error("compression", absl::StrCat(" is \"", source.compression(),
                                                 "\", but dali_index is of plain files"));
}

absl::Status CheckTfRecord(const OptionsChecker& check, const proto::TfRecord& source) {
  MILLRACE_RETURN_IF_ERROR(CheckSource(check, source));
  MILLRACE_RETURN_IF_ERROR(CheckDaliIndex(check, source));
  if (source.access_point_bytes() != 0) {
    MILLRACE_RETURN_IF_ERROR(check.InRange("access_point_bytes", source.access_point_bytes(),
                                           uint64_t{4} << 10, uint64_t{16} << 20));
  }
  return IsKnown(check, "io", source.io(), {"pread", "mmap", "direct"});
}

absl::Status CheckFixedLength(const OptionsChecker& check, const proto::FixedLength& source) {
  MILLRACE_RETURN_IF_ERROR(CheckFiles(check, source));
  MILLRACE_RETURN_IF_ERROR(check.InRange("record_bytes", source.record_bytes(), 1, kMaxRecord));
  MILLRACE_RETURN_IF_ERROR(check.InRange("header_bytes", source.header_bytes(), 0, kMaxRecord));
  return check.InRange("footer_bytes", source.footer_bytes(), 0, kMaxRecord);
}

absl::Status CheckCsv(const OptionsChecker& check, const proto::Csv& source) {
  MILLRACE_RETURN_IF_ERROR(CheckSource(check, source));
  if (source.ignore_header_names() && !source.header()) {
    return check.Error("ignore_header_names", " goes with header: true");
  }
  return check.IsDelimiter(source.delimiter(),
                           " must be one ASCII character, and neither a quote nor a line break");
}

absl::Status CheckImageFolder(const OptionsChecker& check, const proto::ImageFolder& source) {
  if (source.path().empty()) {
    return check.Error("path", " is empty; name the folder of the images");
  }
  for (int i = 0; i < source.classes_size(); ++i) {
    if (source.classes(i).empty()) return check.Error("classes", " has an empty name", i);
  }
  if (source.classes_size() > 0 && !source.classes_file().empty()) {
    return check.Error("classes_file", " cannot stand beside classes: either names all of them");
  }
  if (source.has_label() && (source.classes_size() > 0 || !source.classes_file().empty())) {
    return check.Error("label", " is one for all images, so there are no classes");
  }
  return check.InRange("max_record_bytes", source.max_record_bytes(), 1, kMaxRecord);
}

template <typename Files>
void ToFiles(readers::ContainerKind kind, const Files& files, SourceSpec* source) {
  source->container.kind = kind;
  source->file_patterns.assign(files.files().begin(), files.files().end());
  source->compression = files.compression();
  if constexpr (requires { files.max_record_bytes(); }) {
    source->max_record_bytes = files.max_record_bytes();
  }
}

void ToTfRecord(const proto::TfRecord& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kTfRecord, files, source);
  source->dali_index.assign(files.dali_index().begin(), files.dali_index().end());
  source->verify_crc = !files.skip_crc();
  source->io = files.io();
  source->drop_behind = files.drop_behind();
  source->access_point_bytes = files.access_point_bytes();
}

void ToFixedLength(const proto::FixedLength& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kFixedLength, files, source);
  source->container.header_bytes = files.header_bytes();
  source->container.record_bytes = files.record_bytes();
  source->container.footer_bytes = files.footer_bytes();
  source->max_record_bytes = files.record_bytes();
}

void ToText(const proto::Text& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kText, files, source);
}

void ToCsv(const proto::Csv& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kCsv, files, source);
  source->container.has_header = files.header();
  source->container.delimiter = files.delimiter()[0];
  source->columns.delimiter = files.delimiter()[0];
  source->ignore_header_names = files.ignore_header_names();
}

void ToTar(const proto::Tar& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kTar, files, source);
}

void ToIdx(const proto::Idx& files, SourceSpec* source) {
  ToFiles(readers::ContainerKind::kIdx, files, source);
}

void ToImageFolder(const proto::ImageFolder& folder, SourceSpec* source) {
  source->kind = SourceSpec::Kind::kImageFolder;
  source->folder = folder.path();
  if (folder.has_label()) source->label = folder.label();
  source->classes.assign(folder.classes().begin(), folder.classes().end());
  source->classes_file = folder.classes_file();
  source->strict = folder.strict();
  source->max_record_bytes = folder.max_record_bytes();
}

constexpr Option kFiles = {"files", "names, patterns and URLs ([below](#names-of-files))",
                           kRequired};
constexpr Option kCompression = {"compression",
                                 R"(`"auto"`, `"none"`, `"gzip"`, `"zlib"` or `"zstd"`)"};
constexpr Option kLongest = {"max_record_bytes", "longer records are damage", "2^30"};

constexpr StageRow kFileRows[] = {
    {.op_case = Stage::kTfrecord,
     .name = "tfrecord",
     .kind = StageKind::kSource,
     .doc = "The records of TFRecord files, in the order of the sorted names of the files.",
     .options = {kFiles,
                 kCompression,
                 {"skip_crc", "do not check the checksums"},
                 kLongest,
                 {"io", R"(`"pread"`, `"mmap"`, or `"direct"` past the page cache (O_DIRECT))"
                        "; speed only"},
                 {"drop_behind",
                  "take out of the page cache what a reader in order has left behind (not with "
                  "`mmap`); speed only"},
                 {"access_point_bytes",
                  "inflated bytes between the places at which a compressed file is entered, 4 KiB "
                  "to 16 MiB; speed only",
                  "4 MiB"},
                 {"dali_index",
                  "NVIDIA DALI's indexes (`.idx`) of the files, as many, paired by their names, "
                  "else in sorted order ([below](#indexes-of-dali))"}},
     .fill = Fill<&Stage::mutable_tfrecord, FillTfRecord>,
     .check = Check<&Stage::tfrecord, CheckTfRecord>,
     .source = To<&Stage::tfrecord, ToTfRecord>,
     .reads_files = true},
    {.op_case = Stage::kText,
     .name = "text",
     .kind = StageKind::kSource,
     .doc = "The lines of text files, without their line breaks.",
     .options = {kFiles, kCompression, kLongest},
     .fill = Fill<&Stage::mutable_text, FillSource<proto::Text>>,
     .check = Check<&Stage::text, CheckSource<proto::Text>>,
     .source = To<&Stage::text, ToText>,
     .reads_files = true},
    {.op_case = Stage::kCsv,
     .name = "csv",
     .kind = StageKind::kSource,
     .doc = "The rows of CSV files (RFC 4180), as they stand; quoted fields may hold line breaks.",
     .options = {kFiles,
                 kCompression,
                 kLongest,
                 {"header",
                  "the first row of each file names its columns ([below](#headers-of-csv))"},
                 {"ignore_header_names", "such names do not count; columns go by their places"},
                 {"delimiter", "one character"}},
     .fill = Fill<&Stage::mutable_csv, FillCsv>,
     .check = Check<&Stage::csv, CheckCsv>,
     .source = To<&Stage::csv, ToCsv>,
     .reads_files = true},
    {.op_case = Stage::kTar,
     .name = "tar",
     .kind = StageKind::kSource,
     .doc = "The samples of tar archives as WebDataset lays them out: members that follow each "
            "other and have one name up to the first dot.",
     .options = {kFiles, kCompression, kLongest},
     .fill = Fill<&Stage::mutable_tar, FillSource<proto::Tar>>,
     .check = Check<&Stage::tar, CheckSource<proto::Tar>>,
     .source = To<&Stage::tar, ToTar>,
     .reads_files = true},
    {.op_case = Stage::kIdx,
     .name = "idx",
     .kind = StageKind::kSource,
     .doc = "The elements of the first dimension of IDX files (the MNIST format); numbers of more "
            "than a byte are big endian there.",
     .options = {kFiles, kCompression, kLongest},
     .fill = Fill<&Stage::mutable_idx, FillSource<proto::Idx>>,
     .check = Check<&Stage::idx, CheckSource<proto::Idx>>,
     .source = To<&Stage::idx, ToIdx>,
     .reads_files = true},
    {.op_case = Stage::kFixedLength,
     .name = "fixed_length",
     .kind = StageKind::kSource,
     .doc = "Records of one size, between a header and a footer of each file.",
     .options = {kFiles,
                 kCompression,
                 {"record_bytes", "", kRequired},
                 {"header_bytes", ""},
                 {"footer_bytes", ""}},
     .fill = Fill<&Stage::mutable_fixed_length, FillFixedLength>,
     .check = Check<&Stage::fixed_length, CheckFixedLength>,
     .source = To<&Stage::fixed_length, ToFixedLength>,
     .reads_files = true},
    {.op_case = Stage::kImageFolder,
     .name = "image_folder",
     .kind = StageKind::kSource,
     .doc = "Every .jpg, .jpeg, .jpe, .jfif and .png below a folder, with the int64 field `label`: "
            "the number of its subfolder among the sorted names, those without images included "
            "([below](#folders-of-images)).",
     .options = {{"path", "the folder", kRequired},
                 {"label", "of all images, where the paths tell no class"},
                 {"max_record_bytes", "larger files are damage", "2^30"},
                 {"classes",
                  "names of the classes in the order of their labels, instead of the "
                  "subfolders'"},
                 {"classes_file", "the same: a file with a name per line"},
                 {"strict", "images of kinds that are not read are an error, not left out"}},
     .fill = Fill<&Stage::mutable_image_folder, FillImageFolder>,
     .check = Check<&Stage::image_folder, CheckImageFolder>,
     .source = To<&Stage::image_folder, ToImageFolder>},
};

}  // namespace

constinit const StageFamily kFileStages = {"files", "Sources of files", kFileRows};

}  // namespace millrace::pipeline
