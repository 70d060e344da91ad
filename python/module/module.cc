#include "capi/millrace.h"
#include "python/array/tensor.h"
#include "python/batch/batch.h"
#include "python/call/error.h"
#include "python/call/lock.h"
#include "python/call/object.h"
#include "python/collectives/comm.h"
#include "python/collectives/reducer.h"
#include "python/context/context.h"
#include "python/device/device_batch.h"
#include "python/device/device_tensor.h"
#include "python/device/feed.h"
#include "python/loader/loader.h"
#include "python/ops/batch_view.h"
#include "python/ops/ops.h"
#include "python/ops/run_view.h"
#include "python/plan/plan.h"
#include "python/source/source.h"
#include "python/write/convert.h"
#include "python/write/writer.h"

// The module millrace._core: millrace.h for Python. The package that users see is made of it in
// Python.

namespace millrace::python {
namespace {

PyObject* Version(PyObject*, PyObject*) { return PyUnicode_FromString(mr_version_text()); }

PyObject* DetectLauncher(PyObject*, PyObject*) {
  return Call([&] {
    mr_launcher launcher = {};
    launcher.struct_size = sizeof launcher;
    std::string source;
    Check(mr_detect_launcher(&launcher, AppendTo, &source));
    const Ref found = Checked(PyBool_FromLong(launcher.found));
    return Checked(Py_BuildValue("(OiiiN)", found.get(), launcher.rank, launcher.world,
                                 launcher.local_size, Text(source).release()));
  });
}

PyObject* SetBatch(PyObject*, PyObject* type) {
  return CallNone([&] { SetBatchType(type); });
}

PyObject* SetDeviceBatch(PyObject*, PyObject* type) {
  return CallNone([&] { SetDeviceBatchType(type); });
}

int RunCommand(std::vector<char*>& argv) {
  const Unlocked unlocked;
  return mr_main(static_cast<int>(argv.size()) - 1, argv.data());
}

PyObject* Main(PyObject*, PyObject* arguments) {
  return Call([&] {
    const Py_ssize_t size = PySequence_Size(arguments);
    if (size < 0) throw Raised();
    std::vector<std::string> texts;  // bytes of the system, which need not be UTF-8
    for (Py_ssize_t i = 0; i < size; ++i) {
      const char* text = PyBytes_AsString(Checked(PySequence_GetItem(arguments, i)).get());
      if (text == nullptr) throw Raised();
      texts.emplace_back(text);
    }
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    return Checked(PyLong_FromLong(RunCommand(argv)));
  });
}

PyObject* End(PyObject*, PyObject*) {
  EndInterpreter();
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"plan_from_text", PlanFromText, METH_VARARGS,
     "plan_from_text(text, origin, variables)\n--\n\nReads a plan."},
    {"plan_from_file", PlanFromFile, METH_VARARGS,
     "plan_from_file(path, variables)\n--\n\nReads a plan's file."},
    {"explain", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Explain)),
     METH_VARARGS | METH_KEYWORDS, "Returns the text of `millrace explain`."},
    {"convert", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(Convert)),
     METH_VARARGS | METH_KEYWORDS,
     "Converts, with the fields of mr_convert_options as keywords; returns (records, left_out, "
     "images_not_read, file_bytes, warnings)."},
    {"detect_launcher", DetectLauncher, METH_NOARGS,
     "Returns (found, rank, world, local_size, source) from the environment."},
    {"set_batch_type", SetBatch, METH_O, "Sets the class of batches."},
    {"set_device_batch_type", SetDeviceBatch, METH_O, "Sets the class of batches on devices."},
    {"main", Main, METH_O, "Runs a command line of the program millrace; returns its exit code."},
    {"version", Version, METH_NOARGS, "Returns Millrace's version."},
    {"end", End, METH_NOARGS,
     "Says that the interpreter ends: threads of the pipeline call no function of Python."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_core",
                          "millrace.h for Python.",
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

PyObject* MakeModule() {
  return Call([&] {
    Ref module = Checked(PyModule_Create(&definition));
    AddTensor(module.get());
    AddBatch(module.get());
    AddDeviceTensor(module.get());
    AddDeviceBatch(module.get());
    AddPlan(module.get());
    AddContext(module.get());
    AddSources(module.get());
    AddRunView(module.get());
    AddBatchView(module.get());
    AddOps(module.get());
    AddLoader(module.get());
    AddFeed(module.get());
    AddWriter(module.get());
    AddComm(module.get());
    AddReducer(module.get());
    return module;
  });
}

}  // namespace
}  // namespace millrace::python

PyMODINIT_FUNC PyInit__core() { return millrace::python::MakeModule(); }
