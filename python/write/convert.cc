#include "python/write/convert.h"

#include <cstring>
#include <deque>
#include <limits>
#include <variant>

#include "capi/millrace.h"
#include "python/call/error.h"
#include "python/call/progress.h"

namespace millrace::python {
namespace {

// The fields of mr_convert_options that keywords set.
using Options = mr_convert_options;
using Member = std::variant<const char * Options::*, int32_t Options::*, int64_t Options::*,
                            uint64_t Options::*, const int64_t * Options::*,
                            const uint64_t * Options::*, const double * Options::*>;
struct Keyword {
  const char* name;
  Member member;
};
const Keyword kKeywords[] = {
    {"from", &Options::from},
    {"to", &Options::to},
    {"images", &Options::images},
    {"labels", &Options::labels},
    {"label", &Options::label},
    {"classes", &Options::classes},
    {"prefix", &Options::prefix},
    {"suffix", &Options::suffix},
    {"input_compression", &Options::input_compression},
    {"compression", &Options::compression},
    {"delimiter", &Options::delimiter},
    {"record_bytes", &Options::record_bytes},
    {"header_bytes", &Options::header_bytes},
    {"footer_bytes", &Options::footer_bytes},
    {"schema", &Options::schema},
    {"feature", &Options::feature},
    {"features", &Options::features},
    {"image_feature", &Options::image_feature},
    {"image_encoding", &Options::image_encoding},
    {"write_mode", &Options::write_mode},
    {"check_images", &Options::check_images},
    {"on_damage", &Options::on_damage},
    {"quarantine", &Options::quarantine_file},
    {"max_resolution", &Options::max_resolution},
    {"min_resolution", &Options::min_resolution},
    {"smart_threshold", &Options::smart_threshold},
    {"compress_probability", &Options::compress_probability},
    {"write_seed", &Options::write_seed},
    {"shuffle", &Options::shuffle},
    {"shards", &Options::shards},
    {"compression_level", &Options::compression_level},
    {"jpeg_quality", &Options::jpeg_quality},
    {"header", &Options::has_header},
    {"allow_nan", &Options::allow_nan},
    {"strict", &Options::strict},
    {"upright", &Options::upright},
    {"overwrite", &Options::overwrite},
    {"threads", &Options::threads},
    {"index_folder", &Options::index_folder},
};

// The options of keywords, whose texts are those of the objects.
class Arguments {
 public:
  Arguments(PyObject* files, PyObject* keywords) : files_(TextsOf(files)) {
    options_.struct_size = sizeof options_;
    for (const std::string& file : files_) names_.push_back(file.c_str());
    options_.files = names_.data();
    options_.num_files = names_.size();
    Py_ssize_t at = 0;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    while (keywords != nullptr && PyDict_Next(keywords, &at, &name, &value)) {
      Take(TextOf(name), value);
    }
  }

  Options& options() { return options_; }

 private:
  void Take(const std::string& name, PyObject* value) {
    for (const Keyword& keyword : kKeywords) {
      if (name != keyword.name) continue;
      if (value == Py_None) return;
      name_ = keyword.name;
      std::visit([&](auto member) { Set(options_.*member, value); }, keyword.member);
      return;
    }
    Raise(PyExc_TypeError, ("convert() has no option '" + name + "'").c_str());
  }

  [[noreturn]] void Bad(PyObject* type, const char* why) const {
    Raise(type, (std::string(name_) + ": " + why).c_str());
  }

  void Set(const char*& field, PyObject* value) {
    if (!PyUnicode_Check(value)) Bad(PyExc_TypeError, "is no str");
    Py_ssize_t size = 0;
    field = PyUnicode_AsUTF8AndSize(value, &size);
    if (field == nullptr) throw Raised();
    if (std::strlen(field) != static_cast<size_t>(size)) {
      Bad(PyExc_ValueError, "has a zero byte");
    }
  }
  void Set(int64_t& field, PyObject* value) {
    if (!PyLong_Check(value)) Bad(PyExc_TypeError, "is no int");
    field = PyLong_AsLongLong(value);
    if (field == -1 && PyErr_Occurred() != nullptr) Bad(PyExc_ValueError, "is too large");
  }
  void Set(uint64_t& field, PyObject* value) {
    if (!PyLong_Check(value)) Bad(PyExc_TypeError, "is no int");
    field = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() != nullptr) Bad(PyExc_ValueError, "is negative or too large");
  }
  void Set(int32_t& field, PyObject* value) {
    int64_t number = 0;
    Set(number, value);
    using Limits = std::numeric_limits<int32_t>;
    if (number < Limits::min() || number > Limits::max()) Bad(PyExc_ValueError, "is too large");
    field = static_cast<int32_t>(number);
  }
  void Set(const int64_t*& field, PyObject* value) {
    Set(kept_.emplace_back().number, value);
    field = &kept_.back().number;
  }
  void Set(const uint64_t*& field, PyObject* value) {
    Set(kept_.emplace_back().seed, value);
    field = &kept_.back().seed;
  }
  void Set(const double*& field, PyObject* value) {
    double& kept = kept_.emplace_back().fraction;
    kept = PyFloat_AsDouble(value);
    if (kept == -1 && PyErr_Occurred() != nullptr) Bad(PyExc_TypeError, "is no float");
    field = &kept;
  }

  union Kept {
    int64_t number = 0;
    uint64_t seed;
    double fraction;
  };

  Options options_ = {};
  const std::vector<std::string> files_;
  std::vector<const char*> names_;
  std::deque<Kept> kept_;
  const char* name_ = "";  // the keyword that is taken
};

// The `user` of the callbacks.
struct Told {
  Told(PyObject* function, PyObject* told_bad) : progress(function), bad(told_bad) {}

  static int32_t Tell(void* self, int64_t done, int64_t total) {
    return Progress::Tell(&static_cast<Told*>(self)->progress, done, total);
  }
  static void Warn(void* self, const char* text, size_t size) {
    static_cast<Told*>(self)->warnings.emplace_back(text, size);
  }
  static void TellBad(void* self, const mr_error* error) {
    auto& told = *static_cast<Told*>(self);
    told.progress.Interrupt([&] {
      const Ref exception = ExceptionOf(error);
      Checked(PyObject_CallFunctionObjArgs(told.bad, exception.get(), nullptr));
    });
  }

  Progress progress;
  PyObject* const bad;  // a function, or None
  std::vector<std::string> warnings;
};

}  // namespace

PyObject* Convert(PyObject*, PyObject* positional, PyObject* keywords) {
  return Call([&] {
    PyObject* files = nullptr;
    PyObject* function = nullptr;
    PyObject* bad = nullptr;
    if (!PyArg_ParseTuple(positional, "OOO", &files, &function, &bad)) throw Raised();
    Arguments arguments(files, keywords);
    Told told(function, bad);
    Options& options = arguments.options();
    Interruptible interruptible;
    options.cancel = interruptible.cancel();
    options.user = &told;
    options.progress = Told::Tell;
    options.warn = Told::Warn;
    if (bad != Py_None) options.bad_record = Told::TellBad;
    mr_convert_report report = {};
    report.struct_size = sizeof report;
    told.progress.Run(interruptible, [&] { return mr_convert(&options, &report); });
    Ref warnings = Checked(PyList_New(0));
    for (const std::string& warning : told.warnings) {
      CheckedZero(PyList_Append(warnings.get(), Text(warning).get()));
    }
    return Checked(Py_BuildValue("(KKKKN)", static_cast<unsigned long long>(report.records),
                                 static_cast<unsigned long long>(report.left_out),
                                 static_cast<unsigned long long>(report.images_not_read),
                                 static_cast<unsigned long long>(report.file_bytes),
                                 warnings.release()));
  });
}

}  // namespace millrace::python
