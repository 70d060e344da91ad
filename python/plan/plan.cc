#include "python/plan/plan.h"

#include <memory>

#include "python/call/error.h"
#include "python/call/lock.h"

namespace millrace::python {
namespace {

struct Plan {
  PyObject_HEAD;
  mr_plan* plan;
};

PyTypeObject* plan_type = nullptr;

Plan* AsPlan(PyObject* object) { return reinterpret_cast<Plan*>(object); }

void Dealloc(PyObject* object) {
  mr_plan_free(AsPlan(object)->plan);
  Free(object);
}

Ref MakePlan(mr_plan* owned) {
  std::unique_ptr<mr_plan, decltype(&mr_plan_free)> held(owned, mr_plan_free);
  auto* const plan = Make<Plan>(plan_type);
  plan->plan = held.release();
  return Ref(reinterpret_cast<PyObject*>(plan));
}

// The variables of a plan, from a dict of str.
struct Variables {
  explicit Variables(PyObject* dict) {
    const Ref keys = Checked(PyDict_Keys(dict));
    const Ref all_values = Checked(PyDict_Values(dict));
    name_texts = TextsOf(keys.get());
    value_texts = TextsOf(all_values.get());
    for (const std::string& name : name_texts) names.push_back(name.c_str());
    for (const std::string& value : value_texts) values.push_back(value.c_str());
  }
  std::vector<std::string> name_texts, value_texts;
  std::vector<const char*> names, values;
};

PyObject* TextOfPlan(PyObject* self, PyObject*) {
  return Call([&] {
    std::string text;
    Check(mr_plan_text(AsPlan(self)->plan, AppendTo, &text));
    return Text(text);
  });
}

PyObject* Fingerprint(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(mr_plan_fingerprint(AsPlan(self)->plan));
}

struct StageTexts {
  std::string name, op, options;
};

PyObject* Stages(PyObject* self, PyObject*) {
  return Call([&] {
    std::vector<StageTexts> stages;
    Check(mr_plan_stages(
        AsPlan(self)->plan,
        [](void* user, const mr_stage* stage) {
          static_cast<std::vector<StageTexts>*>(user)->push_back(
              {stage->name, stage->op, stage->options});
        },
        &stages));
    Ref list = Checked(PyList_New(0));
    for (const StageTexts& stage : stages) {
      const Ref row =
          Checked(Py_BuildValue("(NNN)", Text(stage.name).release(), Text(stage.op).release(),
                                Text(stage.options).release()));
      CheckedZero(PyList_Append(list.get(), row.get()));
    }
    return list;
  });
}

PyMethodDef methods[] = {
    {"text", TextOfPlan, METH_NOARGS, "Returns the plan with all defaults filled in."},
    {"stages", Stages, METH_NOARGS, "Returns (name, op, options) of each stage."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"fingerprint", Fingerprint, nullptr,
     "A hash of what the plan delivers, without paths and fields that only change its speed.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A plan that the library has read.")},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};

PyType_Spec spec = {"millrace._core.Plan", sizeof(Plan), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void AddPlan(PyObject* module) { plan_type = AddType(module, &spec); }

const mr_plan* PlanOf(PyObject* object) {
  if (!PyObject_TypeCheck(object, plan_type)) Raise(PyExc_TypeError, "not a plan of _core");
  return AsPlan(object)->plan;
}

PyObject* PlanFromText(PyObject*, PyObject* arguments) {
  return Call([&] {
    const char* text = nullptr;
    Py_ssize_t size = 0;
    const char* origin = nullptr;
    PyObject* dict = nullptr;
    if (!PyArg_ParseTuple(arguments, "s#sO!", &text, &size, &origin, &PyDict_Type, &dict)) {
      throw Raised();
    }
    const Variables variables(dict);
    mr_plan* plan = nullptr;
    Check(mr_plan_from_text(text, static_cast<size_t>(size), origin, variables.names.data(),
                            variables.values.data(), variables.names.size(), &plan));
    return MakePlan(plan);
  });
}

PyObject* PlanFromFile(PyObject*, PyObject* arguments) {
  return Call([&] {
    const char* path = nullptr;
    PyObject* dict = nullptr;
    if (!PyArg_ParseTuple(arguments, "sO!", &path, &PyDict_Type, &dict)) throw Raised();
    const Variables variables(dict);
    mr_plan* plan = nullptr;
    mr_error* error = nullptr;
    {
      const Unlocked unlocked;
      error = mr_plan_from_file(path, variables.names.data(), variables.values.data(),
                                variables.names.size(), &plan);
    }
    Check(error);
    return MakePlan(plan);
  });
}

}  // namespace millrace::python
