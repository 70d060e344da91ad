"""Says that the package has compiled code, which is the same for all versions of Python."""
import setuptools


class CompiledDistribution(setuptools.Distribution):
    """A distribution whose wheel is for one platform, though setuptools compiles nothing."""

    def has_ext_modules(self):
        return True


setuptools.setup(distclass=CompiledDistribution,
                 options={"bdist_wheel": {"py_limited_api": "cp310"}})
