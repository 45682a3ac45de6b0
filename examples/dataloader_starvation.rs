fn main(){ let _ = burn::tensor::Device::flex(); }
