"""The version of hamfem, read by the build without importing DOLFINx."""

version = "0.1.0.dev0"
