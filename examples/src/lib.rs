//! Examples live beside this file, one trainer each.
